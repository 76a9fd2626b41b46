/** What agents looked at while they worked: pictures of the page, each of a time of the film, among what was said. */
import { useQuery } from '@tanstack/react-query';
import { ask, type Problem, type Schemas } from './client';

export type Picture = Schemas['PictureView'];

/** Pictures that were taken between two things that were said, the oldest first; `seq` is the first one's. */
export interface LookedAt {
  seq: number;
  pictures: readonly Picture[];
}

const PAGE = 200;
const MOST_PAGES = 5;

/** The pictures that agents took in a session, newest first; of very many the newest. */
export function usePictures(sessionId: string) {
  return useQuery<Picture[], Problem>({
    queryKey: ['pictures', sessionId],
    queryFn: async ({ signal }) => {
      const found: Picture[] = [];
      let before = '';
      for (let page = 0; page < MOST_PAGES; page += 1) {
        const { pictures, next } = await ask<Schemas['PicturePage']>(`/v1/sessions/${sessionId}/pictures?limit=${PAGE}${before}`, { signal });
        found.push(...pictures);
        if (next === null || next === undefined) break;
        before = `&before=${next}`;
      }
      return found;
    },
  });
}

/**
 * What was said and what was looked at between, both newest first; what was looked at before a number is left out, since what was
 * said then is not read yet.
 */
export function withPictures<S extends { seq: number }>(said: readonly S[], pictures: readonly Picture[], since = 0): (S | LookedAt)[] {
  const told: (S | LookedAt)[] = [];
  let at = 0;
  const takenAfter = (seq: number) => {
    const begin = at;
    while ((pictures[at]?.seq ?? 0) > seq) at += 1;
    const taken = pictures.slice(begin, at).reverse();
    if (taken[0]) told.push({ seq: taken[0].seq, pictures: taken });
  };
  for (const each of said) {
    takenAfter(each.seq);
    told.push(each);
  }
  takenAfter(since);
  return told;
}

/** The time of the film that a picture shows. */
export function timeOf({ atS }: Pick<Picture, 'atS'>): string {
  return `${atS.toFixed(2)} s`;
}
