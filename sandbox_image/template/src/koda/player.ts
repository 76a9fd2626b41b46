// Draws one frame at a time: moves Theatre, renders React, lets everything settle, then paints 3D.
//
// Live and export take the same steps. Export also waits, between React and the paint, until fonts, images and
// suspended components are there; it never waits for an animation frame or a timer.
import { flushSync } from 'react-dom';
import { clock, stepBetween } from './clock';
import { announceSeek, getTimeline } from './contract';
import { errors } from './errors';
import { settle } from './settle';
import { moveSheets, tickTheatre } from './theatre';

/** A second renderer beside the DOM, such as WebGL. It adds itself when its module is loaded. */
export interface Renderer {
  /** Run `work` so that this renderer's updates are committed when it returns. */
  commit(work: () => void): void;
  /** Compile what would otherwise be compiled during the first frames. */
  warm(): void;
  /** Draw `time`; `delta` is what integrating state moves by. Both in seconds. */
  paint(time: number, delta: number): void;
}

const renderers = new Set<Renderer>();

export function addRenderer(renderer: Renderer): void {
  renderers.add(renderer);
}

function commit(work: () => void): void {
  let wrapped = (): void => flushSync(work);
  for (const renderer of renderers) {
    const inner = wrapped;
    wrapped = () => renderer.commit(inner);
  }
  wrapped();
}

function announce(): void {
  clock.notify();
  announceSeek(clock.now());
}

function show(seconds: number): number {
  const delta = stepBetween(clock.now(), seconds);
  clock.set(seconds);
  moveSheets(seconds);
  tickTheatre(seconds);
  commit(announce);
  return delta;
}

function paint(seconds: number, delta: number): void {
  // what was mounted by this frame has subscribed to Theatre after the first tick
  tickTheatre(seconds);
  commit(() => {
    for (const renderer of renderers) renderer.paint(seconds, delta);
  });
}

/** Draw a frame as far as it can be drawn at once: for live mode. */
export function drawNow(seconds: number): void {
  const delta = show(seconds);
  paint(seconds, delta);
}

async function drawSettled(seconds: number): Promise<void> {
  const known = errors.length;
  const delta = show(seconds);
  if (await settle()) commit(announce);
  paint(seconds, delta);
  const thrown = errors[known];
  if (thrown) throw new Error(`drawing ${seconds} s failed: ${thrown.message}`);
}

/** Bring 3D shaders in and draw the first frame twice, so that nothing is set up while frames are captured. */
export async function warmUp(): Promise<void> {
  for (const renderer of renderers) renderer.warm();
  for (let pass = 0; pass < 2; pass++) await drawSettled(0);
}

/** Keep a time that a renderer asks for within the animation. */
function within(seconds: number): number {
  if (!Number.isFinite(seconds)) throw new TypeError(`seek takes seconds as a finite number, not ${String(seconds)}`);
  return Math.min(Math.max(seconds, 0), getTimeline().duration);
}

let queue: Promise<void> = Promise.resolve();

/** Draw the frame at `seconds`, after those asked for before. Rejects when the page throws while drawing it. */
export function seek(seconds: number): Promise<void> {
  const drawn = queue.then(() => drawSettled(within(seconds)));
  queue = drawn.catch(() => undefined);
  return drawn;
}
