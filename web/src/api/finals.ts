/** The finished videos of a session: what it was rendered to, each by the job that made it. */
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { ask, type Problem, type Schemas, type SessionView, unlessGone } from './client';
import { isKept } from './queue';
import type { RenderSummary } from './renders';

export { formOf, isPlayed } from '../../node/src/session';

const STALE_MS = 30_000;
const NONE: readonly Final[] = [];

/** A finished video, and the jobs that made the same before. */
export type Final = RenderSummary & { also: readonly string[] };

/** Whether a format has a place for transparency. */
export function canBeTransparent(format: string | null | undefined): boolean {
  return format !== 'mp4';
}

/** Whatever was rendered once more as it was counts once, by the newest; the list begins with that. */
export function distinct(finals: readonly RenderSummary[]): Final[] {
  const found = new Map<string, RenderSummary[]>();
  for (const each of finals) {
    const named = `${each.bundle} ${finalName(each)}`;
    found.set(named, [...(found.get(named) ?? []), each]);
  }
  return [...found.values()].flatMap(([newest, ...before]) => (newest ? [{ ...newest, also: before.map(({ id }) => id) }] : []));
}

/** Whether a job made one of these, or the same before. */
export function isMadeBy(job: string | null | undefined): (final: Final) => boolean {
  return ({ id, also }) => job != null && (id === job || also.includes(job));
}

/** What a finished video is called beside others: by its format, size and rate. */
export function finalName({ format, transparent, width, height, fps }: RenderSummary): string {
  const told = [transparent ? `${format}, transparent` : format, width && height ? `${width} × ${height}` : '', fps ? `${Number(fps.toFixed(2))} fps` : ''];
  return told.filter(Boolean).join(' · ');
}

/** How the finished videos are read, for who wants to know whether they were. */
export function useFinalList({ id, state }: SessionView) {
  return useQuery<readonly Final[], Problem>({
    queryKey: ['finals', id, state.output?.videoUrl],
    queryFn: async ({ signal }) => {
      const { renders } = await ask<Schemas['RenderList']>(`/v1/renders?session=${id}&kind=final&status=succeeded&limit=100`, { signal });
      const finals = distinct(renders);
      const kept = await Promise.all(finals.map(({ videoUrl }) => isKept(videoUrl ?? '')));
      return finals.filter((_, at) => kept[at]);
    },
    staleTime: STALE_MS,
  });
}

/** Those of a session that are there still, newest first. */
export function useFinals(session: SessionView): readonly Final[] {
  return useFinalList(session).data ?? NONE;
}

/** Delete a finished video, with those that were made the same before; who is gone already is deleted. */
export function useDeletion({ id }: SessionView, final: Final, deleted: () => void) {
  const client = useQueryClient();
  return useMutation<void, Problem>({
    mutationFn: async () => {
      for (const job of [...final.also, final.id]) await ask<void>(`/v1/sessions/${id}/finals/${job}`, { method: 'DELETE' }).catch(unlessGone);
    },
    onSuccess: deleted,
    onSettled: () => {
      const changed = [['session', id], ['finals', id], ['versions', id], ['shares', id], ['renders'], ['sessions'], ['usage']];
      return Promise.all(changed.map((queryKey) => client.invalidateQueries({ queryKey })));
    },
  });
}
