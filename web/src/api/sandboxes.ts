/** A person's own sandboxes and images: how they stand, in words, and what is asked of them. Nothing of it is asked again and again. */
import { type QueryClient, useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { ask, Problem, type Schemas, unlessGone } from './client';
import { numberOf } from './typed';
import { bytes, seconds } from './words';

export type Box = Schemas['SandboxView'];
export type Image = Schemas['ImageView'];
export type Process = Schemas['ProcessView'];

const BOXES = ['boxes'];
const IMAGES = ['images'];
export const PROVIDERS = ['local', 'docker', 'e2b', 'modal'];

/** How long one may live, by seconds as they are sent. */
export const LIFETIMES: readonly (readonly [value: string, words: string])[] = [
  ['900', '15 minutes'],
  ['3600', 'An hour'],
  ['14400', '4 hours'],
  ['43200', '12 hours'],
  ['86400', 'A day'],
];

/** What a new sandbox is to be, as it is chosen; empty is as usual. */
export interface Wanted {
  image: string;
  provider: string;
  lifetime: string;
  network: boolean;
}

export const AS_USUAL: Wanted = { image: '', provider: '', lifetime: '', network: false };

/** What is sent: what was chosen, and nothing else. */
export function askedOf({ image, provider, lifetime, network }: Wanted): Record<string, unknown> {
  return {
    ...(image ? { image } : {}),
    ...(provider ? { provider } : {}),
    ...(lifetime ? { lifetimeS: numberOf(lifetime) } : {}),
    ...(network ? { network } : {}),
  };
}

/** What it began as, and the end of its id, by which those that began as the same are told apart. */
export function nameOf({ id, imageId }: Pick<Box, 'id' | 'imageId'>, images: readonly Image[] | undefined): string {
  const began = imageId == null ? 'Animation template' : (images?.find((each) => each.id === imageId)?.name ?? 'An image');
  return `${began} ${shortOf(id)}`;
}

export function shortOf(id: string): string {
  return id.slice(-6);
}

const STATES: Record<Box['state'], string> = {
  running: 'Running',
  creating: 'Being made',
  paused: 'Paused',
  terminated: 'Ended',
  gone: 'Gone',
  elsewhere: 'Elsewhere',
  unknown: 'Not known',
};

const IMAGE_STATES: Record<Image['state'], string> = {
  ready: 'Ready',
  creating: 'Being made',
  missing: 'Not there any more',
  elsewhere: 'Elsewhere',
  unknown: 'Not known',
};

export function stateWords({ state }: Pick<Box, 'state'>): string {
  return STATES[state];
}

export function imageWords({ state }: Pick<Image, 'state'>): string {
  return IMAGE_STATES[state];
}

/** Why it cannot be used now, where that is so. */
export function whyNot({ state, host, ended }: Pick<Box, 'state' | 'host' | 'ended'>): string | undefined {
  if (state === 'running') return undefined;
  if (state === 'creating') return 'It is being made. Look again in a moment.';
  if (state === 'paused') return 'Somebody has paused it where it runs. It can be used once it goes on there.';
  if (state === 'elsewhere') return `It is at ${host}, and is used and ended there.`;
  if (state === 'unknown') return 'Its provider cannot be asked just now.';
  return ended ? `It is over: ${ended}.` : 'It is over, with its files and processes.';
}

/** Whether there is nothing left of it. */
export function isOver({ state }: Pick<Box, 'state'>): boolean {
  return state === 'terminated' || state === 'gone';
}

/** How long it is there yet; nothing where it is over. */
export function endsWords(box: Pick<Box, 'state' | 'expiresAt' | 'unusedS'>, now: number): string {
  if (isOver(box) || !box.expiresAt) return '';
  const ends = `ends in ${spanWords((Date.parse(box.expiresAt) - now) / 1000)}`;
  return box.unusedS ? `${ends}, or ${spanWords(box.unusedS)} after its last use` : ends;
}

/** A length of time as people say it, of seconds. */
export function spanWords(span: number): string {
  if (span < 60) return 'less than a minute';
  const minutes = Math.round(span / 60);
  if (minutes < 60) return minutes === 1 ? 'a minute' : `${minutes} minutes`;
  const hours = Math.round(minutes / 60);
  return hours === 1 ? 'an hour' : `${hours} hours`;
}

/** How a process stands. */
export function processWords({ state, exitCode }: Pick<Process, 'state' | 'exitCode'>): string {
  if (state === 'running') return 'Running';
  if (state === 'lost') return 'Ended, nobody knows how';
  return exitCode == null ? 'Ended' : `Ended with ${exitCode}`;
}

/** What a build came to. */
export function buildWords({ ok, files, problems, durationS }: Schemas['BuildView']): string {
  if (!ok) return problems.length === 1 ? 'It does not build: one thing is wrong.' : `It does not build: ${problems.length} things are wrong.`;
  const size = files.reduce((sum, each) => sum + each.sizeBytes, 0);
  return `Built in ${seconds(durationS)}: ${files.length === 1 ? 'one file' : `${files.length} files`}, ${bytes(size)}.`;
}

/** Where a problem of a build is. */
export function placeOf({ file, line, column }: Schemas['BuildProblemView']): string {
  return [file, line, column].filter((each) => each != null).join(':');
}

/** The address of a sandbox, or of something of it. */
export function addressOf(id: string, ...below: string[]): string {
  return ['/v1/sandboxes', encodeURIComponent(id), ...below].join('/');
}

/** Where a file of a sandbox is. */
export function boxFileAddress(id: string, path: string): string {
  return addressOf(id, 'files', path.split('/').map(encodeURIComponent).join('/'));
}

/** Where a file comes that is brought into a folder; a browser would take what leads out of it for another address. */
export function pathIn(folder: string, name: string): string {
  const names = folder.trim().split('/').filter((each) => each && each !== '.');
  if (names.includes('..')) {
    const problem = `a folder of the project, not one that “..” leads to`;
    throw new Problem(0, 'INVALID_PATH', `folder: ${problem}`, [{ field: 'folder', problem }]);
  }
  return [...names, name].join('/');
}

export function useBoxes(all: boolean) {
  return useQuery<Box[], Problem>({
    queryKey: [...BOXES, all],
    queryFn: async ({ signal }) => (await ask<Schemas['SandboxList']>(`/v1/sandboxes${all ? '?all=true' : ''}`, { signal })).sandboxes.reverse(),
    placeholderData: (before) => before,
    staleTime: 0, // time ends them
  });
}

export function useBox(id: string) {
  return useQuery<Box, Problem>({ queryKey: ['box', id], queryFn: ({ signal }) => ask(addressOf(id), { signal }), staleTime: 0, retry: false });
}

export function useImages() {
  return useQuery<Image[], Problem>({
    queryKey: IMAGES,
    queryFn: async ({ signal }) => (await ask<Schemas['ImageList']>('/v1/images', { signal })).images.reverse(),
  });
}

/** Have everything of a sandbox read anew. */
export function rereadBox(client: QueryClient, id: string): Promise<unknown> {
  return Promise.all(['box', 'box files', 'box file', 'box processes'].map((what) => client.invalidateQueries({ queryKey: [what, id] })));
}

/** Have lists of sandboxes read anew. */
export function rereadBoxes(client: QueryClient): Promise<unknown> {
  return client.invalidateQueries({ queryKey: BOXES });
}

/** End a sandbox, or forget one that is elsewhere. */
export function useEnding({ id, state }: Box, ended: () => void) {
  const client = useQueryClient();
  return useMutation<void, Problem>({
    mutationFn: () => ask<void>(`${addressOf(id)}${state === 'elsewhere' ? '?forget=true' : ''}`, { method: 'DELETE' }).catch(unlessGone),
    onSuccess: ended,
    onSettled: () => Promise.all([rereadBoxes(client), client.invalidateQueries({ queryKey: ['box', id] })]),
  });
}

/** Remove an image, or forget one that is elsewhere. */
export function useImageRemoval({ id, state }: Image, removed: () => void) {
  const client = useQueryClient();
  return useMutation<void, Problem>({
    mutationFn: () => ask<void>(`/v1/images/${encodeURIComponent(id)}${state === 'elsewhere' ? '?forget=true' : ''}`, { method: 'DELETE' }).catch(unlessGone),
    onSuccess: removed,
    onSettled: () => client.invalidateQueries({ queryKey: IMAGES }),
  });
}
