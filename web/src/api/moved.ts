/** What is moved by frames, a live page or a video, and how it is played: at which rate, which part of it, once or round and round. */

/** Seconds; `rate` is below 0 where it goes backwards; `to` is where the part ends, whose frame is none of it. */
export interface How {
  rate: number;
  from: number;
  to: number;
  loop: boolean;
}

export interface Moved {
  time: number;
  duration: number;
  fps: number;
  playing: boolean;
  seek: (time: number) => void;
  play: (how: How) => void;
  pause: () => void;
}

/** Frames, `to` without itself. */
export interface Range {
  from: number;
  to: number;
}

export const SPEEDS = [0.1, 0.25, 0.5, 1, 1.5, 2, 4] as const;
const FASTEST = 4;
const GEARS = [1, 2, 4];

/** The gear after another key of the shuttle: from standing into the first, then up, and down to the first when it turns around. */
export function shifted(gear: number, direction: 1 | -1, playing: boolean): number {
  if (!playing || Math.sign(gear) !== direction) return direction;
  return direction * (GEARS.find((each) => each > Math.abs(gear)) ?? FASTEST);
}

/** Frames' time for a second of ours. */
export function rateOf(speed: number, gear: number): number {
  return Math.sign(gear) * Math.min(FASTEST, speed * Math.abs(gear));
}

/** The part that begins with a frame, or ends with it; where the other end is on the wrong side, it is the film's own. */
export function marked(range: Range | undefined, what: 'in' | 'out', frame: number, frames: number): Range {
  const { from, to } = range ?? { from: 0, to: frames };
  if (what === 'in') return { from: frame, to: to > frame ? to : frames };
  return { from: from <= frame ? from : 0, to: frame + 1 };
}

/** Where playing goes on from a time outside of its part: undefined where it is over. */
export function around(time: number, { from, to, loop }: How): number | undefined {
  if (time >= from && time < to) return time;
  const length = to - from;
  return loop && length > 0 ? from + ((((time - from) % length) + length) % length) : undefined;
}

/** Where playing begins: where it stands, or at the beginning of its part where that is elsewhere or at its end. */
export function beginning(time: number, { rate, from, to, loop }: How, fps: number): number {
  const frame = 1 / fps;
  const isOver = !loop && (rate < 0 ? time < from + frame / 2 : time >= to - frame - 1e-4);
  if (time >= from && time < to && !isOver) return time;
  return rate < 0 ? Math.max(from, to - frame) : from;
}
