/** What a user's work lies in. What names no project lies in one that is called as its user is. */
import { useQuery } from '@tanstack/react-query';
import { ask, type Problem, type Schemas } from './client';

const PAGE = 200;
const MOST_PAGES = 10;

/** The names of all projects, as far as one chooses among so many. */
export function useProjects() {
  return useQuery<string[], Problem>({
    queryKey: ['projects'],
    queryFn: async ({ signal }) => {
      const found: string[] = [];
      let after: string | null | undefined;
      for (let page = 0; page < MOST_PAGES && after !== null; page += 1) {
        const from: string = after === undefined ? '' : `&after=${encodeURIComponent(after)}`;
        const { projects, next } = await ask<Schemas['ProjectPage']>(`/v1/projects?limit=${PAGE}${from}`, { signal });
        found.push(...projects.map(({ id }) => id));
        after = next ?? null;
      }
      return found;
    },
    staleTime: 0, // something that was made elsewhere may have named another
  });
}

/** A project in a sentence; `own` is what its user is called. */
export function projectWords(project: string, own: string | undefined): string {
  return project === own ? 'your own project' : `the project “${project}”`;
}
