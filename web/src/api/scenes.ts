/** A plan's scenes: how far each is made, where each begins, and how they are laid out side by side. */
import type { Schemas } from './client';
import { firstFrame } from './timecode';

export type Scene = Schemas['Plan']['scenes'][number];
/** A scene on a timeline, of a plan or of a version. */
export type Stretch = Schemas['VersionScene'];
type Step = Schemas['Todo'];
export type Stand = NonNullable<Step['status']>;

const IN_A_ROW = [4, 8, 15];
const NAMED = /(?:^|[^a-z])(?:scene|s)[-_ ]?0*(\d+)$/i;

/** How far each scene is made, as the steps tell: by their ids (`scene-2`, `s2`), else by the scene's title. */
export function standing(scenes: readonly Scene[], steps: readonly Step[]): Stand[] {
  return scenes.map(({ number, title }) => {
    const named = steps.find(({ id }) => Number(NAMED.exec(id)?.[1]) === number);
    const told = named ?? steps.find(({ label }) => title !== '' && label.toLowerCase().includes(title.toLowerCase()));
    return told?.status ?? 'pending';
  });
}

/** The time at which each scene begins, in seconds. */
export function beginnings(scenes: readonly Stretch[]): number[] {
  let ends = 0;
  return scenes.map(({ duration }) => (ends += duration) - duration);
}

/** The frame with which the scene after the one that is shown begins, or the one before it: going back first leads to its own beginning. */
export function sceneBeside(scenes: readonly Stretch[], frame: number, fps: number, by: -1 | 1): number | undefined {
  const all = beginnings(scenes).map((begins) => firstFrame(begins, fps));
  return by > 0 ? all.find((begins) => begins > frame) : all.findLast((begins) => begins < frame);
}

/** The scenes of the first seconds, the last of them as far as they go. */
export function until(scenes: readonly Stretch[], seconds: number): Stretch[] {
  const begins = beginnings(scenes);
  return scenes.flatMap((scene, at) => {
    const left = seconds - begins[at]!;
    return left > 1e-4 ? [{ ...scene, duration: Math.min(scene.duration, left) }] : [];
  });
}

/** Whether two films have the same scenes at the same times. */
export function isAlike(one: readonly Stretch[], other: readonly Stretch[]): boolean {
  return one.length === other.length && one.every(({ title, duration }, at) => title === other[at]?.title && Math.abs(duration - other[at].duration) < 1e-4);
}

/** Scenes in rows, as many as leave each of them room, in order, and about as many in each. */
export function rows<S>(scenes: readonly S[]): S[][] {
  const most = IN_A_ROW.findIndex((each) => scenes.length <= each);
  const count = most < 0 ? Math.ceil(scenes.length / 5) : most + 1;
  const each = Math.ceil(scenes.length / count);
  return Array.from({ length: count }, (_, at) => scenes.slice(at * each, (at + 1) * each)).filter((row) => row.length > 0);
}
