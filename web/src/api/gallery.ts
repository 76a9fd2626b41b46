/** Which sessions somebody looks for, as the address of the page has it, and as the server is asked. */
import { keepPreviousData, useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { useSearchParams } from 'wouter';
import { ask, type Problem, type Schemas, type SessionSummary } from './client';
import { isHidden, useDeleted } from './deleted';
import { isKept, PINNED } from './hooks';

export interface Sought {
  text: string;
  show: Show;
}

/** What there is to choose from: its name in the address, its words, and what the server is asked. */
export const SHOWN = [
  ['all', 'All', ''],
  ['waiting', 'Waiting for you', 'turn=person'],
  ['working', 'At work', 'turn=agents'],
  ['finished', 'Finished', 'phase=complete'],
  ['stopped', 'Stopped', 'phase=error'],
] as const;
export type Show = (typeof SHOWN)[number][0];

const PAGE = 24;
const MOST_PINNED = 200;
const MINUTE_S = 60;
const HOUR_S = 3600;
const DAY_S = 86_400;

/** Read what is looked for out of an address; what it does not know counts as all. */
export function read(params: URLSearchParams): Sought {
  const show = SHOWN.find(([name]) => name === params.get('show'))?.[0] ?? 'all';
  return { text: (params.get('q') ?? '').trim(), show };
}

/** Write it into an address, beside whatever else is there. */
export function written(params: URLSearchParams, { text, show }: Sought): URLSearchParams {
  const next = new URLSearchParams(params);
  for (const [name, value] of [['q', text.trim()], ['show', show === 'all' ? '' : show]] as const) {
    if (value) next.set(name, value);
    else next.delete(name);
  }
  return next;
}

/** What is looked for, out of the address, so that a reload keeps it; and how something else comes there. */
export function useSought(): [Sought, (change: Partial<Sought>) => void] {
  const [params, setParams] = useSearchParams();
  const seek = (change: Partial<Sought>) =>
    setParams((now) => written(now, { ...read(now), ...change }), { replace: change.show === undefined });
  return [read(params), seek];
}

/** The address of a page of sessions, last changed first. */
export function address({ text, show }: Sought, page: Record<string, string | number | null>): string {
  const asked = new URLSearchParams(SHOWN.find(([name]) => name === show)?.[2]);
  asked.set('order', 'changed');
  if (text) asked.set('text', text);
  for (const [name, value] of Object.entries(page)) if (value !== null) asked.set(name, String(value));
  return `/v1/sessions?${asked}`;
}

/** How long ago something was, in words. */
export function ago(at: string, now: number): string {
  const passed = Math.max(0, (now - Date.parse(at)) / 1000);
  if (passed < MINUTE_S) return 'just now';
  if (passed < HOUR_S) return `${Math.floor(passed / MINUTE_S)} min ago`;
  if (passed < DAY_S) return `${Math.floor(passed / HOUR_S)} h ago`;
  const days = Math.floor(passed / DAY_S);
  if (days < 7) return days === 1 ? 'a day ago' : `${days} days ago`;
  const isThisYear = new Date(at).getFullYear() === new Date(now).getFullYear();
  return new Date(at).toLocaleDateString('en-GB', { day: 'numeric', month: 'short', ...(isThisYear ? {} : { year: 'numeric' }) });
}

/** Pinned ones, then the others, each once, without those that were just deleted. */
export function inOrder(pinned: readonly SessionSummary[], others: readonly SessionSummary[]): SessionSummary[] {
  const found = new Map<string, SessionSummary>();
  for (const each of [...pinned, ...others]) if (!found.has(each.id) && !isHidden(each.id)) found.set(each.id, each);
  return [...found.values()];
}

/** The sessions that are looked for, as far as they were read. */
export function useGallery({ text, show }: Sought) {
  useDeleted();
  const others = useInfiniteQuery<Schemas['SessionPage'], Problem, SessionSummary[], string[], string | null>({
    queryKey: ['sessions', text, show],
    initialPageParam: null,
    placeholderData: keepPreviousData,
    queryFn: ({ pageParam, signal }) => ask(address({ text, show }, { pinned: 'false', limit: PAGE, before: pageParam }), { signal }),
    getNextPageParam: (page) => page.next ?? undefined,
    select: ({ pages }) => pages.flatMap((page) => page.sessions),
  });
  const pinned = useQuery<Schemas['SessionPage'], Problem>({
    queryKey: ['sessions', text, show, PINNED],
    placeholderData: keepPreviousData,
    queryFn: ({ signal }) => ask(address({ text, show }, { pinned: 'true', limit: MOST_PINNED }), { signal }),
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
