/**
 * All renders of a user, live. What is under way is asked for again and again, which wakes nothing; what is over is read
 * when something ends, and its first page now and then. Of each it is one request after the other: two connections at
 * most.
 */
import { type InfiniteData, useInfiniteQuery, useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect, useMemo, useRef, useState } from 'react';
import { ask, newKey, Problem, type Schemas, unlessGone } from './client';
import { addressOf, endedWords, isBatchOver, isOver, merged, type Order, orderOf, overStates, pageKept, type RenderSummary, type RenderView, type Shown, SHOWN } from './renders';

type List = Schemas['RenderList'];

const PAGE = 30;
const RUNNING = 100;
const MOST = 200;
const SOON_MS = 1500;
const LATER_MS = 6000;
const NOW_AND_THEN_MS = 10_000;
const KINDS = ['final', 'preview', 'render'];

interface UnderWay {
  renders: RenderSummary[];
  /** Whether more wait than were read. */
  more: boolean;
}

export function useQueue(shown: Shown, text: string) {
  const client = useQueryClient();
  const [waiting, setWaiting] = useState(PAGE);
  const states = overStates(shown);
  const wantsUnderWay = shown !== 'done' && shown !== 'failed';
  const underWay = useQuery<UnderWay, Problem>({
    queryKey: ['renders', 'under way', waiting, text],
    queryFn: async ({ signal }) => {
      const running = await ask<List>(address(['running'], text, RUNNING), { signal });
      const queued = await ask<List>(address(['queued'], text, waiting), { signal });
      return { renders: [...running.renders, ...queued.renders], more: queued.next != null };
    },
    placeholderData: (before) => before,
    staleTime: 0,
    // another program may begin one: it is looked for where nothing is under way, too
    refetchInterval: ({ state }) => (state.data?.renders.length ? SOON_MS : LATER_MS),
    retry: false,
  });
  const over = useInfiniteQuery<List, Problem, RenderSummary[], string[], string | null>({
    queryKey: ['renders', 'over', text, ...states],
    initialPageParam: null,
    enabled: states.length > 0,
    queryFn: async ({ pageParam, queryKey, signal }) => {
      const { data, isInvalidated } = client.getQueryState<InfiniteData<List>>(queryKey) ?? {};
      return pageKept(data, isInvalidated ?? false, pageParam) ?? ask<List>(address(states, text, PAGE, pageParam), { signal });
    },
    getNextPageParam: (page) => page.next ?? undefined,
    select: ({ pages }) => pages.flatMap(({ renders }) => renders),
    // while other words are looked for, what was found before stays
    placeholderData: (before, query) => (query?.queryKey.slice(3).join() === states.join() ? before : undefined),
    staleTime: 0,
    refetchInterval: NOW_AND_THEN_MS, // what begins and ends between two looks was never seen under way
  });
  const [left, setLeft] = useState<readonly RenderSummary[]>([]);
  const [seen, setSeen] = useState<{ of: string; renders: readonly RenderSummary[] }>({ of: text, renders: [] });
  const now = underWay.data?.renders;
  if (now && now !== seen.renders) {
    // until the list of what is over has them, they stand where they were; in no drawing between are they gone
    const ids = new Set(now.map(({ id }) => id));
    const gone = seen.of === text ? seen.renders.filter(({ id }) => !ids.has(id)) : []; // else they are none of those that are looked for
    setSeen({ of: text, renders: now });
    if (gone.length > 0) setLeft(gone);
  }
  useEffect(() => {
    if (left.length === 0) return;
    const known = () => setLeft((still) => (still === left ? [] : still));
    void client.invalidateQueries({ queryKey: ['renders', 'over'] }).then(known);
  }, [left, client]);
  const renders = useMemo(
    () => merged(wantsUnderWay ? [...(now ?? []), ...left.filter(({ id }) => !now?.some((each) => each.id === id))] : [], over.data ?? []),
    [wantsUnderWay, now, left, over.data],
  );
  return {
    renders,
    said: useEnded(renders),
    isPending: (wantsUnderWay && underWay.isPending) || (states.length > 0 && over.isPending),
    problem: over.error ?? (underWay.data ? null : underWay.error),
    /** Whether it is of other words than those that are looked for. */
    isOfBefore: over.isPlaceholderData || (underWay.isPlaceholderData && seen.of !== text),
    isLost: Boolean(underWay.data && underWay.error),
    /** Reads more of what waits; undefined where all is read, or as much as is shown. */
    moreWaiting: wantsUnderWay && underWay.data?.more && waiting < MOST ? () => setWaiting(MOST) : undefined,
    moreOver: over.hasNextPage ? () => void over.fetchNextPage() : undefined,
    isReading: over.isFetchingNextPage,
  };
}

/** What ended while it was looked at, in words that are read aloud. */
function useEnded(renders: readonly RenderSummary[]): string {
  const [said, setSaid] = useState('');
  const before = useRef<readonly RenderSummary[]>([]);
  useEffect(() => {
    const words = endedWords(before.current, renders);
    before.current = renders;
    if (words.length > 0) setSaid(words.join('. '));
  }, [renders]);
  return said;
}

function address(statuses: readonly string[], text: string, limit: number, before?: string | null): string {
  const asked = new URLSearchParams({ limit: String(limit) });
  for (const kind of KINDS) asked.append('kind', kind);
  for (const status of statuses) asked.append('status', status);
  if (text) asked.set('text', text);
  if (before) asked.set('before', before);
  return `/v1/renders?${asked}`;
}

/** A page's render, asked for again and again until it is over. */
export function useRender(id: string) {
  return useQuery<RenderView, Problem>({
    queryKey: ['renders', 'one', id],
    queryFn: ({ signal }) => ask(`/v1/renders/${encodeURIComponent(id)}`, { signal }),
    retry: (count, { status }) => status !== 404 && count < 1,
    refetchInterval: ({ state: { data, error } }) => (error?.status === 404 || (data && isOver(data)) ? false : SOON_MS),
  });
}

/** How far a batch is, asked for again and again until all of it is over. */
export function useBatch(id: string) {
  return useQuery<Schemas['BatchView'], Problem>({
    queryKey: ['renders', 'batch', id],
    queryFn: ({ signal }) => ask(`/v1/renders/batches/${encodeURIComponent(id)}`, { signal }),
    refetchInterval: ({ state: { data, error } }) => (error?.status !== 404 && data && !isBatchOver(data) ? LATER_MS : false),
  });
}

/** Have a render cancelled, or made again, which `begun` is told the id of. What is sent again because its answer was lost is the same request. */
export function useOrders(render: RenderSummary, begun?: (id: string) => void) {
  const client = useQueryClient();
  const unanswered = useRef<Order>(undefined);
  const { mutate, isPending, error, reset } = useMutation<Partial<Schemas['RenderedAgain']>, Problem, Order['name']>({
    mutationFn: (name) => {
      unanswered.current = orderOf(name, unanswered.current, newKey);
      return ask(`/v1/jobs/${render.id}/${name}`, { method: 'POST', key: unanswered.current.key });
    },
    onSuccess: ({ jobId }) => jobId && begun?.(jobId),
    onSettled: async (_, problem) => {
      if (problem?.status !== 0) unanswered.current = undefined;
      await client.invalidateQueries({ queryKey: ['renders'] });
    },
  });
  const over = isOver(render);
  useEffect(() => {
    unanswered.current = undefined; // what was sent, and said of it, before it ended, or began again
    reset();
  }, [over, reset]);
  return { give: (order: Order['name']) => isPending || mutate(order), isPending, problem: error };
}

/** Delete a render with its video; who is gone already is deleted. */
export function useRemoval(render: RenderSummary, removed: () => void) {
  const client = useQueryClient();
  return useMutation<void, Problem>({
    mutationFn: () => ask<void>(addressOf(render), { method: 'DELETE' }).catch(unlessGone),
    onSuccess: removed,
    onSettled: () => {
      const { sessionId: id } = render;
      const ofSession = id ? [['session', id], ['finals', id], ['versions', id], ['shares', id], ['sessions']] : [];
      return Promise.all([['renders'], ['usage'], ...ofSession].map((queryKey) => client.invalidateQueries({ queryKey })));
    },
  });
}

/** Have all that is left of a batch cancelled; asked for again, it is the same. */
export function useBatchCancelled(id: string) {
  const client = useQueryClient();
  return useMutation<unknown, Problem>({
    mutationFn: () => ask(`/v1/renders/batches/${id}/cancel`, { method: 'POST' }),
    onSettled: () => client.invalidateQueries({ queryKey: ['renders'] }),
  });
}

let asked = Promise.resolve(true);

/** Whether something is still kept, as far as the server says; one is asked about after the other. */
export function isKept(url: string): Promise<boolean> {
  asked = asked.then(() => fetch(url, { method: 'HEAD', redirect: 'manual' }).then(({ status }) => status !== 404, () => true)); // prettier-ignore
  return asked;
}

export const FILTERS = Object.entries(SHOWN).map(([name, [words]]) => [name as Shown, words] as const);
