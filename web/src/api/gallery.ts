/** Which sessions somebody looks for, as the address of the page has it, and as the server is asked. */
import { keepPreviousData, useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { useSearchParams } from 'wouter';
import { ask, type Problem, type Schemas, type SessionSummary } from './client';
import { isHidden, useDeleted } from './deleted';
import { isKept, PINNED } from './hooks';

export interface Sought {
  text: string;
  show: Show;
  /** A project's name; empty: whichever. */
  project: string;
  /** When it was last changed. */
  when: When;
  /** Of dates of one's own the first and the last, as `2026-11-03`; empty: none. */
  from: string;
  to: string;
  /** Whether something of it is awake; empty: either. */
  status: Status;
}

export type When = '' | 'today' | 'week' | 'month' | 'own';
export type Status = '' | 'active' | 'suspended';

/** What there is to choose from: its name in the address, its words, and what the server is asked. */
export const SHOWN = [
  ['all', 'All', ''],
  ['waiting', 'Waiting for you', 'turn=person'],
  ['working', 'At work', 'turn=agents'],
  ['finished', 'Finished', 'phase=complete'],
  ['stopped', 'Stopped', 'phase=error'],
] as const;
export type Show = (typeof SHOWN)[number][0];

export const EVERYTHING: Sought = { text: '', show: 'all', project: '', when: '', from: '', to: '', status: '' };

/** How many days a choice of times goes back, today being one of them. */
const DAYS: Partial<Record<string, number>> = { today: 1, week: 7, month: 30 };
const STATUSES: readonly Status[] = ['active', 'suspended'];
/** The last one of which the server is asked for the day behind it. */
export const LAST_DAY = '9998-12-31';
const DATE = /^(\d{4})-(\d\d)-(\d\d)$/;

/** What is chosen is gone back from; what is typed is not. */
const STEPS = ['show', 'project', 'when', 'status'];
const PAGE = 24;
const MOST_PINNED = 200;

/** Read what is looked for out of an address; what it does not know counts as all. */
export function read(params: URLSearchParams): Sought {
  const named = (name: string) => (params.get(name) ?? '').trim();
  const show = SHOWN.find(([name]) => name === params.get('show'))?.[0] ?? 'all';
  const when = named('when');
  const date = (name: string) => (when === 'own' && isDay(named(name)) ? named(name) : '');
  const known = when === 'own' || Object.hasOwn(DAYS, when) ? (when as When) : '';
  const status = STATUSES.find((each) => each === named('status')) ?? '';
  return { text: named('q'), show, project: named('project'), when: known, from: date('from'), to: date('to'), status };
}

function isDay(date: string): boolean {
  return DATE.test(date) && date <= LAST_DAY && !Number.isNaN(Date.parse(`${date}T00:00:00Z`));
}

/** Write it into an address, beside whatever else is there. */
export function written(params: URLSearchParams, { text, show, project, when, from, to, status }: Sought): URLSearchParams {
  const next = new URLSearchParams(params);
  const isOwn = when === 'own';
  const named = { q: text.trim(), show: show === 'all' ? '' : show, project, when, from: isOwn ? from : '', to: isOwn ? to : '', status };
  for (const [name, value] of Object.entries(named)) {
    if (value) next.set(name, value);
    else next.delete(name);
  }
  return next;
}

/** Whether less than all is looked for, of what one chooses beside the words and where it is. */
export function isNarrowed({ project, when, status }: Sought): boolean {
  return Boolean(project || when || status);
}

/** From when on and until when something was last changed, by the days of whoever looks; undefined: whenever. */
export function spanOf({ when, from, to }: Pick<Sought, 'when' | 'from' | 'to'>, now: Date): { since?: string | undefined; until?: string | undefined } {
  const days = DAYS[when];
  if (days) return { since: new Date(now.getFullYear(), now.getMonth(), now.getDate() - days + 1).toISOString() };
  return when === 'own' ? { since: dayOf(from, 0), until: dayOf(to, 1) } : {};
}

function dayOf(date: string, after: number): string | undefined {
  const [, year, month, day] = DATE.exec(date) ?? [];
  return day && new Date(Number(year), Number(month) - 1, Number(day) + after).toISOString();
}

/** What is looked for, out of the address, so that a reload keeps it; and how something else comes there. */
export function useSought(): [Sought, (change: Partial<Sought>) => void] {
  const [params, setParams] = useSearchParams();
  const seek = (change: Partial<Sought>) =>
    setParams((now) => written(now, { ...read(now), ...change }), { replace: !STEPS.some((name) => name in change) });
  return [read(params), seek];
}

type Asked = Record<string, string | number | null | undefined>;

/** The address of a page of sessions, last changed first. */
export function address({ text, show }: Pick<Sought, 'text' | 'show'>, page: Asked): string {
  const asked = new URLSearchParams(SHOWN.find(([name]) => name === show)?.[2]);
  asked.set('order', 'changed');
  if (text) asked.set('text', text);
  for (const [name, value] of Object.entries(page)) if (value || value === 0) asked.set(name, String(value));
  return `/v1/sessions?${asked}`;
}

/** Pinned ones, then the others, each once, without those that were just deleted. */
export function inOrder(pinned: readonly SessionSummary[], others: readonly SessionSummary[]): SessionSummary[] {
  const found = new Map<string, SessionSummary>();
  for (const each of [...pinned, ...others]) if (!found.has(each.id) && !isHidden(each.id)) found.set(each.id, each);
  return [...found.values()];
}

/** The sessions that are looked for, as far as they were read. */
export function useGallery(sought: Sought) {
  useDeleted();
  const { text, show, project, status } = sought;
  const { since, until } = spanOf(sought, new Date());
  const within = { project, since, until, status };
  const others = useInfiniteQuery<Schemas['SessionPage'], Problem, SessionSummary[], unknown[], string | null>({
    queryKey: ['sessions', text, show, '', within],
    initialPageParam: null,
    placeholderData: keepPreviousData,
    queryFn: ({ pageParam, signal }) => ask(address(sought, { ...within, pinned: 'false', limit: PAGE, before: pageParam }), { signal }),
    getNextPageParam: (page) => page.next ?? undefined,
    select: ({ pages }) => pages.flatMap((page) => page.sessions),
  });
  const pinned = useQuery<Schemas['SessionPage'], Problem>({
    queryKey: ['sessions', text, show, PINNED, within],
    placeholderData: keepPreviousData,
    queryFn: ({ signal }) => ask(address(sought, { ...within, pinned: 'true', limit: MOST_PINNED }), { signal }),
  });
  const isRead = others.isSuccess && pinned.isSuccess;
  return {
    sessions: inOrder(pinned.data?.sessions ?? [], others.data ?? []),
    isRead,
    isOfBefore: others.isPlaceholderData || pinned.isPlaceholderData,
    isKept: isKept(others) || isKept(pinned),
    problem: others.error ?? pinned.error,
    hasMore: others.hasNextPage,
    isReading: others.isFetchingNextPage,
    hasFailed: others.isFetchNextPageError,
    readMore: () => void others.fetchNextPage(),
  };
}
