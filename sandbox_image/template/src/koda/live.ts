// Plays the animation while somebody watches: the page's clock, moved by animation frames, round and round unless told otherwise.
import { clock } from './clock';
import { getTimeline, type How } from './contract';
import { drawNow } from './player';
import { editorTime } from './theatre';

// after a hidden tab or a long task the animation goes on where it was, instead of jumping
const LONGEST_STEP_S = 0.1;
const NEARLY_S = 1e-4;

let running = 0;
let how: Required<How> = { rate: 1, from: 0, to: Infinity, loop: true };

function range(): { from: number; to: number } {
  const to = Math.min(how.to, getTimeline().duration);
  return { from: Math.min(Math.max(how.from, 0), to), to };
}

/** The last frame that is played before the end, or before the beginning where it goes backwards. */
function last(): number {
  const { from, to } = range();
  return how.rate < 0 ? from : Math.max(from, to - 1 / getTimeline().fps);
}

/** Where the range goes on that `time` has left, or undefined where it ends there. */
function within(time: number): number | undefined {
  const { from, to } = range();
  if (time >= from && time < to) return time;
  const length = to - from;
  return how.loop && length > 0 ? from + ((((time - from) % length) + length) % length) : undefined;
}

function loop(before: number): void {
  running = requestAnimationFrame((now) => {
    const elapsed = Math.min(Math.max((now - before) / 1000, 0), LONGEST_STEP_S);
    const next = editorTime() ?? within(clock.now() + elapsed * how.rate);
    if (next === undefined) running = 0;
    else loop(now);
    drawNow(next ?? last());
  });
}

export function isPlaying(): boolean {
  return running !== 0;
}

/** Play from where it stands; from the beginning of the range where that is outside of it, or at its end. */
export function play(next: How = {}): void {
  how = { rate: 1, from: 0, to: Infinity, loop: true, ...next };
  const { from, to } = range();
  const now = clock.now();
  const isOver = !how.loop && (how.rate < 0 ? now <= from + NEARLY_S : now >= last() - NEARLY_S);
  if (now < from || now >= to || isOver) clock.set(how.rate < 0 ? Math.max(from, to - NEARLY_S) : from);
  if (running === 0) loop(performance.now());
}

export function pause(): void {
  cancelAnimationFrame(running);
  running = 0;
}

/** A canvas whose size changes is cleared: where nothing plays, what was shown is drawn again at its new size. */
export function drawAgainWhenResized(): void {
  const draw = (): void => {
    if (running === 0) drawNow(clock.now());
  };
  window.addEventListener('resize', () => requestAnimationFrame(() => requestAnimationFrame(draw)));
}
