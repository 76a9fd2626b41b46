/** Where on a stage somebody is, which stands in the address beside the version: a reload, or whoever is sent it, finds that again. */
import { createContext } from 'react';
import type { Range } from './moved';

export interface Place {
  /** Seconds, of the frame that is shown. */
  t?: number | undefined;
  /** The part that is played, in seconds; `out` is where it ends, whose frame is none of it. */
  in?: number | undefined;
  out?: number | undefined;
  /** What is looked at in place of the video. */
  panel?: string | undefined;
}

/** Browsers take only so many changes of an address in a while. */
const SETTLE_MS = 400;

/** Whether the stage's place stands in the address. */
export const KeepsPlace = createContext(false);

export function readPlace(search: string): Place {
  const params = new URLSearchParams(search);
  const seconds = (name: string) => {
    const found = Number(params.get(name) || NaN);
    return Number.isFinite(found) && found >= 0 ? found : undefined;
  };
  return { t: seconds('t'), in: seconds('in'), out: seconds('out'), panel: params.get('panel') ?? undefined };
}

/** An address's part after the question mark, once it names a place; what is undefined or 0 stands nowhere. */
export function withPlace(search: string, place: Place): string {
  const params = new URLSearchParams(search);
  for (const [name, value] of Object.entries(place) as [string, number | string | undefined][]) {
    if (value) params.set(name, typeof value === 'number' ? String(Number(value.toFixed(3))) : value);
    else params.delete(name);
  }
  const found = params.toString();
  return found && `?${found}`;
}

/** The part in frames, as far as a film of so many has it. */
export function rangeOf({ in: from = 0, out = Infinity }: Place, fps: number, frames: number): Range | undefined {
  const range = { from: Math.round(from * fps), to: Math.min(Math.round(out * fps), frames) };
  return range.from < range.to && range.to - range.from < frames ? range : undefined;
}

const going = new Set<(t: number) => void>();

/** Be told where somebody wants to go on the stage, in seconds. */
export function onGoing(go: (t: number) => void): () => void {
  going.add(go);
  return () => going.delete(go);
}

/** Go to a moment of what is shown on the stage. */
export function goTo(t: number): void {
  for (const go of [...going]) go(t);
}

let waiting: { path: string; place: Place; timer: ReturnType<typeof setTimeout> } | undefined;

/** Have a place stand in the address soon, unless one is elsewhere by then. */
export function putPlace(place: Place): void {
  const { pathname: path } = window.location;
  if (waiting) clearTimeout(waiting.timer);
  waiting = { path, place: { ...(waiting?.path === path ? waiting.place : {}), ...place }, timer: setTimeout(put, SETTLE_MS) };
}

function put(): void {
  const { pathname, search, hash } = window.location;
  const found = waiting?.path === pathname ? withPlace(search, waiting.place) : search;
  waiting = undefined;
  if (found !== search) window.history.replaceState(window.history.state, '', pathname + found + hash);
}
