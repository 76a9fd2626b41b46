// Lets the page around this one move it, and tells it what is shown: the bridge of the live preview.
//
// Messages are objects with `koda: 1`. Orders are `play`, `pause` and `seek` (with `time` in seconds), numbered by whoever gives
// them (`id`); told are `ready` with the timeline, `state` after each drawn frame and in answer to each order, and `error`.
// Nothing else of the project is told, and a renderer never hears of it.
import { clock } from './clock';
import { getTimeline } from './contract';

const VERSION = 1;

interface Order {
  readonly koda?: unknown;
  readonly id?: unknown;
  readonly do?: unknown;
  readonly time?: unknown;
}

function tell(type: 'ready' | 'state' | 'error', more: Record<string, unknown>): void {
  window.parent.postMessage({ koda: VERSION, type, ...more }, '*');
}

function where(): Record<string, unknown> {
  return { time: clock.now(), playing: isPlaying() };
}

let isPlaying = (): boolean => false;

async function carryOut({ id, do: order, time }: Order): Promise<void> {
  try {
    if (order === 'seek' && typeof time === 'number') await window.__koda.seek(time);
    else if (order === 'play') window.__koda.play();
    else if (order === 'pause') window.__koda.pause();
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
  window.addEventListener('message', ({ source, data }: MessageEvent<Order | null>) => {
    if (source === window.parent && data?.koda === VERSION) void carryOut(data);
  });
  clock.subscribe(() => tell('state', where()));
  const { duration, fps, size } = getTimeline();
  tell('ready', { duration, fps, size: { ...size }, ...where() });
}
