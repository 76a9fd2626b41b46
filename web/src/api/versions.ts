/** A session's versions, and the one of them that somebody looks at, which stands in the address. */
import { useInfiniteQuery, useMutation, useQueryClient } from '@tanstack/react-query';
import { ask, Problem, type Schemas, type SessionView, type VersionView } from './client';
import { useParams } from './params';

/** How versions are read, for who wants to know whether they were. */
export function useVersionPages(sessionId: string) {
  return useInfiniteQuery<Schemas['VersionPage'], Problem, VersionView[], string[], number | null>({
    queryKey: ['versions', sessionId],
    initialPageParam: null,
    queryFn: ({ pageParam }) => ask(`/v1/sessions/${sessionId}/versions?limit=200${pageParam === null ? '' : `&before=${pageParam}`}`),
    getNextPageParam: (page) => page.next ?? undefined,
    select: ({ pages }) => pages.flatMap(({ versions }) => versions).toReversed(),
  });
}

const NONE: readonly VersionView[] = [];

/** Versions as they came, oldest first: the newest, and older ones as far as somebody wanted them. */
export function useVersions(sessionId: string): readonly VersionView[] {
  return useVersionPages(sessionId).data ?? NONE;
}

/** What reads older versions, as long as there are any; and whether they are on their way. */
export function useOlderVersions(sessionId: string): { older: (() => void) | undefined; isReading: boolean } {
  const { hasNextPage, fetchNextPage, isFetchingNextPage } = useVersionPages(sessionId);
  return { older: hasNextPage ? () => void (isFetchingNextPage || fetchNextPage()) : undefined, isReading: isFetchingNextPage };
}

/** The number in the address, and how another comes there; undefined: what the session shows. */
export function useChosen(): [number | undefined, (number: number | undefined) => void] {
  const [params, put] = useParams();
  const number = Number(params.get('v') ?? NaN);
  return [Number.isInteger(number) ? number : undefined, (to) => put({ v: to === undefined ? undefined : String(to) })];
}

/** Change what one makes of a version. */
export function useVersionLabel(sessionId: string) {
  const client = useQueryClient();
  const key = ['versions', sessionId];
  return useMutation<VersionView, Problem, { id: string; note?: string; starred?: boolean }>({
    mutationFn: ({ id, ...label }) => ask(`/v1/sessions/${sessionId}/versions/${id}`, { method: 'PATCH', body: label }),
    onSuccess: () => client.invalidateQueries({ queryKey: key }),
  });
}

/** The version before or after one, as far as there is one. */
export function beside(versions: readonly VersionView[], number: number | undefined, step: -1 | 1): VersionView | undefined {
  const at = versions.findIndex((each) => (number === undefined ? each.current : each.number === number));
  if (at < 0) return step < 0 ? versions.at(-1) : undefined;
  return versions[at + step];
}

/** Whether a session still shows the version that it was put back to, and nothing was begun since. */
export function isRestored(number: number | undefined, versions: readonly VersionView[], { phase, owes }: SessionView['state']): boolean {
  return phase === 'preview' && !owes && versions.some((each) => each.current && each.number === number);
}

/** A unified diff, line by line: what is a place, what came and what went. */
export function lines(diff: string): { kind: 'place' | 'came' | 'went' | 'stays'; text: string }[] {
  const kinds = { '@': 'place', '+': 'came', '-': 'went' } as const;
  return diff
    .split('\n')
    .slice(2)
    .map((text) => ({ kind: kinds[text[0] as keyof typeof kinds] ?? 'stays', text }));
}
