// Lets the page around this one move it, and tells it what is shown: the bridge of the live preview.
//
// Messages are objects with `koda: 1`. Requests are `play` (with `rate`, `from`, `to` and `loop`), `pause`, `seek` (with `time`
// in seconds), `pick` (with a point in design pixels), `ground` (with `clear`: what the animation does not paint is
// transparent) and `sound` (with `muted`), numbered by whoever gives them (`id`); told are `ready` with the timeline and
// whether it can be muted (`mutes`), `state` after each drawn frame and in answer to each request, `picked` with what is at
// that point in place of it, and `error`.
// Nothing else of the project is told, and a renderer never hears of it.
import { clock } from './clock';
import { getTimeline, type How } from './contract';
import { pick } from './picking';
import { mute } from './sound';

const VERSION = 1;

interface Asked {
  readonly koda?: unknown;
  readonly id?: unknown;
  readonly do?: unknown;
  readonly time?: unknown;
  readonly rate?: unknown;
  readonly from?: unknown;
  readonly to?: unknown;
  readonly loop?: unknown;
  readonly clear?: unknown;
  readonly muted?: unknown;
  readonly x?: unknown;
  readonly y?: unknown;
}

function tell(type: 'ready' | 'state' | 'picked' | 'error', more: Record<string, unknown>): void {
  window.parent.postMessage({ koda: VERSION, type, ...more }, '*');
}

function where(): Record<string, unknown> {
  return { time: clock.now(), playing: isPlaying() };
}

let isPlaying = (): boolean => false;

function howOf({ rate, from, to, loop }: Asked): How {
  const isNumber = (value: unknown): value is number => typeof value === 'number' && !Number.isNaN(value);
  return {
    ...(isNumber(rate) && Number.isFinite(rate) && rate !== 0 ? { rate } : {}),
    ...(isNumber(from) ? { from } : {}),
    ...(isNumber(to) ? { to } : {}),
    ...(loop === false ? { loop } : {}),
  };
}

/** Leave transparent what the animation does not paint, so that what is behind the page is seen; or paint it again. */
function clearGround(isClear: boolean): void {
  for (const { style } of [document.documentElement, document.body])
    if (isClear) style.setProperty('background', 'transparent', 'important');
    else style.removeProperty('background');
}

async function carryOut(given: Asked): Promise<void> {
  const { id, do: what, time } = given;
  try {
    if (what === 'seek' && typeof time === 'number') await window.__koda.seek(time);
    else if (what === 'play') window.__koda.play(howOf(given));
    else if (what === 'pause') window.__koda.pause();
    else if (what === 'pick' && typeof given.x === 'number' && typeof given.y === 'number') {
      tell('picked', { id, ...pick(given.x, given.y) });
      return;
    } else if (what === 'ground') clearGround(given.clear === true);
    else if (what === 'sound') mute(given.muted === true);
    else return;
    tell('state', { id, ...where() });
  } catch (thrown) {
    tell('error', { id, message: thrown instanceof Error ? thrown.message : String(thrown) });
  }
}

/** Say that the page could not be shown. */
export function tellFailure(message: string): void {
  if (window.parent !== window) tell('error', { message });
}

/** Begin to listen, once the page is ready and plays. */
export function openBridge(plays: () => boolean): void {
  if (window.parent === window) return;
  isPlaying = plays;
  window.addEventListener('message', ({ source, data }: MessageEvent<Asked | null>) => {
    if (source === window.parent && data?.koda === VERSION) void carryOut(data);
  });
  clock.subscribe(() => tell('state', where()));
  const { duration, fps, size } = getTimeline();
  tell('ready', { duration, fps, size: { ...size }, mutes: true, ...where() });
}
