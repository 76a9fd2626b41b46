// The page contract: `window.__koda`, there before any code of the app runs.
//
// A renderer awaits `ready`, then calls `seek` for each frame and captures when it resolves. Older names lead to the same
// object: `__exportReady`, `__exportSeekTo(seconds)`, `__EXPORT_MODE__` and the `theatre-seek` event.
import { clock } from './clock';
import { errors, type PageError } from './errors';
import { pending } from './pending';

export const CONTRACT_VERSION = 1;

export type Mode = 'live' | 'export';

/** What the project says about itself; times in seconds, lengths in design pixels. */
export interface Timeline {
  readonly duration: number;
  readonly fps: number;
  readonly size: { readonly width: number; readonly height: number };
}

/** How it is played: frames' time for a second of ours (backwards below 0), and which seconds of it, round and round or once. */
export interface How {
  readonly rate?: number;
  readonly from?: number;
  readonly to?: number;
  readonly loop?: boolean;
}

export interface KodaPage extends Timeline {
  /** What is shown now, in seconds. */
  readonly time: number;
  /** Resolves when the first frame could be captured; rejects with what was still missing, or with what went wrong. */
  readonly ready: Promise<void>;
  readonly mode: Mode;
  readonly version: number;
  /** Everything that was thrown in this page, oldest first. */
  readonly errors: readonly PageError[];
  /** What the page waits for at this moment, in words. */
  pending(): string[];
  /** Draw the frame at `seconds`; resolves when it is drawn. In live mode this also pauses the loop. */
  seek(seconds: number): Promise<void>;
  play(how?: How): void;
  pause(): void;
}

declare global {
  interface Window {
    __koda: KodaPage;
    __exportReady: boolean;
    __exportSeekTo: (seconds: number) => Promise<void>;
    __EXPORT_MODE__?: boolean;
  }
}

/** What a mounted app gives to the contract. */
export interface Player {
  seek(seconds: number): Promise<void>;
  play(how?: How): void;
  pause(): void;
}

const UNKNOWN: Timeline = { duration: 0, fps: 0, size: { width: 0, height: 0 } };

let timeline = UNKNOWN;
let player: Player | undefined;
let isReady = false;
let resolveReady: () => void = () => undefined;
let rejectReady: (error: Error) => void = () => undefined;
const ownEvents = new WeakSet<Event>();

export const mode: Mode =
  new URLSearchParams(window.location.search).has('export') || window.__EXPORT_MODE__ === true ? 'export' : 'live';

export function getTimeline(): Timeline {
  return timeline;
}

export function describeTimeline(next: Timeline): void {
  timeline = next;
}

export function connectPlayer(next: Player): void {
  player = next;
}

export function markReady(): void {
  isReady = true;
  resolveReady();
}

export function markFailed(error: Error): void {
  rejectReady(error);
}

/** Tell listeners of the older event that the page now shows `time`; the contract itself ignores events sent here. */
export function announceSeek(time: number): void {
  const detail = { time, frame: Math.floor(time * timeline.fps + 1e-6) };
  const event = new CustomEvent('theatre-seek', { detail });
  ownEvents.add(event);
  window.dispatchEvent(event);
}

/** Put `window.__koda` and its aliases in place. Called once, by boot.ts. */
export function installContract(): void {
  const ready = new Promise<void>((resolve, reject) => {
    resolveReady = resolve;
    rejectReady = reject;
  });
  // A rejection is reported where it is awaited, and recorded in `errors` before; nobody may be awaiting in live mode.
  ready.catch(() => undefined);
  const seek = async (seconds: number): Promise<void> => {
    await ready;
    await player?.seek(seconds);
  };
  const page: KodaPage = {
    ready,
    mode,
    version: CONTRACT_VERSION,
    errors,
    get duration() {
      return timeline.duration;
    },
    get fps() {
      return timeline.fps;
    },
    get size() {
      return timeline.size;
    },
    get time() {
      return clock.now();
    },
    pending: () => pending.names(),
    seek,
    play: (how) => player?.play(how),
    pause: () => player?.pause(),
  };
  Object.defineProperty(window, '__koda', { value: page });
  Object.defineProperty(window, '__exportReady', { get: () => isReady });
  Object.defineProperty(window, '__exportSeekTo', { value: seek });
  if (mode === 'export') window.__EXPORT_MODE__ = true;
  document.documentElement.dataset['mode'] = mode;
  window.addEventListener('theatre-seek', (event) => {
    if (ownEvents.has(event)) return;
    const { time, frame } = ((event as CustomEvent).detail ?? {}) as { time?: number; frame?: number };
    const seconds = time ?? (frame ?? NaN) / timeline.fps;
    seek(seconds).catch((error: unknown) => window.reportError(error));
  });
}
