// The one clock of the page. Live preview and export set the same time; everything that moves reads it.

let time = 0;
let revision = 0;
const listeners = new Set<() => void>();

// A step longer than this is a jump, not a frame: 4 fps is the slowest animation.
const LONGEST_STEP_S = 0.25 + 1e-6;

/**
 * Seconds by which state that integrates `delta` moves when the page goes from `from` to `to`.
 *
 * One frame forward is that frame's length. A jump, forward or back, is 0: seeking never simulates the frames between, so
 * such state is right only when each frame since 0 was drawn in order. Drawing the same time again is 0 too.
 */
export function stepBetween(from: number, to: number): number {
  const step = to - from;
  return step > 0 && step <= LONGEST_STEP_S ? step : 0;
}

export const clock = {
  now: (): number => time,
  /** Grows with every drawn frame, also when the time is the same. */
  revision: (): number => revision,
  set(seconds: number): void {
    time = seconds;
    revision += 1;
  },
  notify(): void {
    for (const listener of [...listeners]) listener();
  },
  subscribe(listener: () => void): () => void {
    listeners.add(listener);
    return () => listeners.delete(listener);
  },
};
