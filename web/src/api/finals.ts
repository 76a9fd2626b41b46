/** The finished videos of a session: what it was rendered to, each by the job that made it. */
import { useQuery } from '@tanstack/react-query';
import { ask, type Problem, type Schemas, type SessionView } from './client';
import { isKept } from './queue';
import type { RenderSummary } from './renders';

export { formOf, isPlayed } from '../../node/src/session';

const STALE_MS = 30_000;
const NONE: readonly RenderSummary[] = [];

/** Whether a format has a place for transparency. */
export function canBeTransparent(format: string | null | undefined): boolean {
  return format !== 'mp4';
}

/** Whatever was rendered once more as it was counts once, by the newest; the list begins with that. */
export function distinct(finals: readonly RenderSummary[]): RenderSummary[] {
  const seen = new Set<string>();
  return finals.filter((each) => {
    const named = `${each.bundle} ${finalName(each)}`;
    return !seen.has(named) && seen.add(named);
  });
}

/** What a finished video is called beside others: by its format, size and rate. */
export function finalName({ format, transparent, width, height, fps }: RenderSummary): string {
  const told = [transparent ? `${format}, transparent` : format, width && height ? `${width} × ${height}` : '', fps ? `${Number(fps.toFixed(2))} fps` : ''];
  return told.filter(Boolean).join(' · ');
}

/** Those of a session that are there still, newest first. */
export function useFinals({ id, state }: SessionView): readonly RenderSummary[] {
  const { data = NONE } = useQuery<readonly RenderSummary[], Problem>({
    queryKey: ['finals', id, state.output?.videoUrl],
    queryFn: async ({ signal }) => {
      const { renders } = await ask<Schemas['RenderList']>(`/v1/renders?session=${id}&kind=final&status=succeeded&limit=100`, { signal });
      const finals = distinct(renders);
      const kept = await Promise.all(finals.map(({ videoUrl }) => isKept(videoUrl ?? '')));
      return finals.filter((_, at) => kept[at]);
    },
    staleTime: STALE_MS,
  });
  return data;
}
