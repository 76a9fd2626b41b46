import { type QueryClient, useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect, useRef, useState, useSyncExternalStore } from 'react';
import { clock } from '../../node/src/clock';
import { paced } from '../../node/src/pace';
import { mayRender, type Progress, progressIn } from '../../node/src/session';
import { ask, Problem, type Schemas, type SessionView } from './client';
import { ownedBy } from './owner';
import { stream } from './stream';

export const LOGIN = ['login'];
/** Where the key of a list says that it is of pinned sessions alone. */
export const PINNED = 'pinned';
const REREAD_MS = 120;
/** So many events ago something was thought last, at most. */
const THOUGHT_WITHIN = 20;
const RENEWED_BEFORE_MS = 60_000;
/** What changes nothing that a list shows. */
const PASSING: readonly string[] = ['render_progress', 'thinking', 'picture_taken'];
/** What makes a version, or changes which one is shown. */
const VERSIONED: readonly string[] = ['preview_ready', 'rewound', 'state_change', 'resync'];

export function useLogin() {
  return useQuery<Schemas['LoginView'], Problem>({
    queryKey: LOGIN,
    queryFn: async () => {
      const login = await ask<Schemas['LoginView']>('/v1/login');
      ownedBy(login.user); // before anything of another person's could be shown
      return login;
    },
    retry: false,
  });
}

/** Whether what there is was read before it was shown here, and is being read anew. */
export function isKept({ isFetching, isFetchedAfterMount }: { isFetching: boolean; isFetchedAfterMount: boolean }): boolean {
  return isFetching && !isFetchedAfterMount;
}

/** Have nothing that was read for one person seen by another: it is read anew where it is shown. */
export function forgetRead(client: QueryClient): void {
  const isReadFor = { predicate: ({ queryKey }: { queryKey: readonly unknown[] }) => queryKey[0] !== LOGIN[0] };
  client.removeQueries({ ...isReadFor, type: 'inactive' });
  void client.resetQueries(isReadFor);
}

export function useLink() {
  return useSyncExternalStore(stream.watch, () => stream.link);
}

export type { Progress };

/** A session as the server has it, read anew after what changes it, and what passes by: thoughts, and how far a render is. */
export function useSession(id: string) {
  const client = useQueryClient();
  const query = useQuery<SessionView, Problem>({
    queryKey: ['session', id],
    queryFn: () => ask(`/v1/sessions/${id}`),
    retry: (count, problem) => problem.status === 0 && count < 5,
  });
  const [heard, setHeard] = useState<Progress | null>(); // null: what is told of renders was heard, and none is under way
  const owed = query.data?.state.owes;
  const stored = useQuery<Progress | null, Problem>({
    queryKey: ['progress', id, owed],
    queryFn: async () => progressIn((await ask<Schemas['JobPage']>(`/v1/sessions/${id}/jobs?limit=1`)).jobs) ?? null,
    enabled: mayRender(owed) && heard === undefined,
    staleTime: Infinity,
    gcTime: 0,
  });
  const [thinking, setThinking] = useState('');
  const [gone, setGone] = useState(false);
  const from = query.data && heardFrom(query.data);
  const stood = useRef('');
  const first = useRef(from);
  first.current ??= from;
  const there = first.current !== undefined;
  useEffect(() => {
    if (!there) return;
    const reread = paced(() => void client.invalidateQueries({ queryKey: ['session', id] }), REREAD_MS);
    const talk = paced(() => void client.invalidateQueries({ queryKey: ['talk', id] }), REREAD_MS);
    const pictures = paced(() => void client.invalidateQueries({ queryKey: ['pictures', id] }), REREAD_MS);
    const versions = paced(() => void client.invalidateQueries({ queryKey: ['versions', id] }), REREAD_MS);
    return stream.follow(id, first.current ?? 0, (event) => {
      if (event.type === 'gone') setGone(true);
      else if (event.type === 'render_progress') setHeard(event.data as unknown as Progress);
      else if (event.type === 'thinking') setThinking(String(event.data?.message ?? ''));
      else if (event.type === 'picture_taken') pictures();
      else {
        const stands = event.type === 'state_change' ? `${event.data?.phase} ${event.data?.owes}` : stood.current;
        if (stands !== stood.current) setThinking(''); // what is only said to them leaves them at what they do
        stood.current = stands;
        const isOver = event.type === 'state_change' && !event.data?.owes;
        if (isOver || event.type === 'render_start' || event.type === 'render_complete') setHeard(null);
        if (event.type === 'resync') {
          setHeard(undefined);
          void client.invalidateQueries({ queryKey: ['progress', id] });
        }
        if (event.type === 'message' || event.type === 'rewound' || event.type === 'resync') talk();
        if (event.type === 'rewound' || event.type === 'resync') pictures();
        if (VERSIONED.includes(event.type)) versions();
        reread();
      }
    });
  }, [client, id, there]);
  const progress = (heard === undefined && mayRender(owed) ? stored.data : heard) ?? undefined;
  return { ...query, progress, thinking: thinking || query.data?.state.execution?.thinking || '', gone };
}

/** From which number on a session is heard: before there is anything to keep its thoughts with, the last of them is heard once more. */
function heardFrom({ seq, state }: SessionView): number {
  return state.execution || !state.owes ? seq : Math.max(0, seq - THOUGHT_WITHIN);
}

/** Where a page's address is asked for, and by what it is kept. */
export interface PageSource {
  of: readonly string[];
  path: string;
}

/** The page of a session as it is while it is written. */
export function previewOf(sessionId: string): PageSource {
  return { of: ['preview', sessionId], path: `/v1/sessions/${sessionId}/preview` };
}

/** The page of a version as it was built. */
export function playerOf({ sessionId, versionId }: { sessionId: string; versionId: string }): PageSource {
  return { of: ['player', versionId], path: `/v1/sessions/${sessionId}/versions/${versionId}/player` };
}

/** Where a page is seen: for as long as it is looked at, since the address is another one before it runs out. */
export function usePageLink({ of, path }: PageSource) {
  return useQuery<Schemas['PreviewLink'], Problem>({
    queryKey: of,
    queryFn: () => ask(path, { method: 'POST' }),
    gcTime: 0,
    staleTime: Infinity,
    refetchOnWindowFocus: false,
    refetchInterval: ({ state: { data } }) =>
      data ? Math.max(RENEWED_BEFORE_MS, Date.parse(data.expiresAt) - clock.now() - RENEWED_BEFORE_MS) : false,
  });
}

/** Where the takes of one prompt are read, newest first. */
export function groupPath(group: string): string {
  return `/v1/sessions?group=${encodeURIComponent(group)}&limit=10`;
}

/** The takes of one prompt, newest first; none where there is no group. */
export function useGroup(group: string | null | undefined) {
  return useQuery<Schemas['SessionPage'], Problem>({
    queryKey: ['sessions', 'group', group],
    queryFn: () => ask(groupPath(group ?? '')),
    enabled: Boolean(group),
  });
}

/** Change how a session stands in lists. */
export function useLabel(id: string) {
  const client = useQueryClient();
  return useMutation<SessionView, Problem, { title?: string; pinned?: boolean }>({
    mutationFn: (label) => ask(`/v1/sessions/${id}`, { method: 'PATCH', body: label }),
    onSuccess: async (view) => {
      client.setQueryData(['session', id], view);
      const isPinned = view.pinned ?? false;
      // it comes into the one list before it leaves the other: its card, and the focus there, stay
      for (const which of [isPinned, !isPinned])
        await client.invalidateQueries({ queryKey: ['sessions'], predicate: ({ queryKey }) => (queryKey[3] === PINNED) === which });
    },
  });
}

/** Which sessions a list has, in whichever order: following them begins anew only when that changes. */
export function setOf(sessions: readonly { id: string }[]): string {
  const ids = sessions.map(({ id }) => id);
  return ids.sort().join();
}

/** Follow what a list shows, in one connection with everything else. */
export function useFollowed(sessions: readonly { id: string; seq: number }[], client: QueryClient) {
  const named = setOf(sessions);
  const now = useRef(sessions);
  now.current = sessions;
  useEffect(() => {
    const reread = paced(() => void client.invalidateQueries({ queryKey: ['sessions'] }), REREAD_MS * 4);
    const ends = now.current.map((each) =>
      stream.follow(each.id, each.seq, (event) => {
        if (!PASSING.includes(event.type)) reread();
      }),
    );
    return () => ends.forEach((end) => end());
  }, [named, client]);
}
