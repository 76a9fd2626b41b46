// Plays the animation in a loop while somebody watches: the page's clock, moved by animation frames.
import { clock } from './clock';
import { getTimeline } from './contract';
import { drawNow } from './player';
import { studioTime } from './theatre';

// after a hidden tab or a long task the animation goes on where it was, instead of jumping
const LONGEST_STEP_S = 0.1;

let running = 0;

function loop(last: number): void {
  running = requestAnimationFrame((now) => {
    loop(now);
    const { duration } = getTimeline();
    const next = clock.now() + Math.min(Math.max((now - last) / 1000, 0), LONGEST_STEP_S);
    drawNow(studioTime() ?? (next < duration ? next : next % duration));
  });
}

export function isPlaying(): boolean {
  return running !== 0;
}

export function play(): void {
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
