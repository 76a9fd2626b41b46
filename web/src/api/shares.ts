/** The links to a session's videos, as their owner has them. */
import { useQuery } from '@tanstack/react-query';
import { ask, type Problem, type Schemas } from './client';

type ShareView = Schemas['ShareView'];

/** So often it is looked whether somebody said something, which no event tells. */
const LOOKED_MS = 60_000;

/** Links that were made and not revoked, newest first. */
export function useLinks(sessionId: string) {
  return useQuery<Schemas['ShareList'], Problem>({
    queryKey: ['shares', sessionId],
    queryFn: () => ask(`/v1/sessions/${sessionId}/shares`),
    staleTime: 0,
    refetchInterval: ({ state: { data } }) => (data?.shares.some(mayComment) ? LOOKED_MS : false),
  });
}

function mayComment({ comments, ended }: ShareView): boolean {
  return comments && !ended;
}

/** How much was said with links, in words; nothing where nothing was. */
export function commentWords(shares: readonly Pick<ShareView, 'commented'>[]): string {
  const count = shares.reduce((sum, { commented }) => sum + commented, 0);
  return count === 0 ? '' : count === 1 ? 'One comment' : `${count} comments`;
}
