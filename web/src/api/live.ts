/**
 * A live page, moved over the bridge of the template (`src/koda/bridge.ts`), through the page of ours around it.
 *
 * What is behind it is written by agents, and may be hostile: a message counts where it comes from the frame that we show, and
 * what it says is taken for numbers within bounds and a short text, for nothing else; however much it says, it is shown once a frame.
 */
import type { How } from './moved';

export interface Timeline {
  duration: number;
  fps: number;
}

/** Pixels of the design. */
export interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}

/** What is at a point of the page, as far as it tells. */
export interface Picked {
  box: Box;
  text: string;
  component: string;
  source: string;
}

export interface Shown {
  timeline: Timeline | undefined;
  time: number;
  playing: boolean;
  problem: string;
  /** Whether it can be muted, which a page of before could not, and is. */
  mutes: boolean;
  muted: boolean;
}

/** What a live page is in the place of, and whether it is to stand until it is told to play. */
interface Given {
  before?: LivePage | undefined;
  rests?: () => boolean;
}

type Later = (told: () => void) => void;

type Told =
  | { type: 'ready'; id: undefined; timeline: Timeline; time: number; playing: boolean; mutes: boolean }
  | { type: 'state'; id: number | undefined; time: number; playing: boolean }
  | { type: 'picked'; id: number | undefined; picked: Picked | undefined }
  | { type: 'error'; id: number | undefined; problem: string };

const LONGEST_S = 3600;
const MOST_FPS = 240;
const MESSAGE_CHARS = 500;
const MOST_PX = 10_000;
const PICKED_WITHIN_MS = 3000;

/** Read what a live page says; undefined for what is none of the bridge's. */
export function read(data: unknown): Told | undefined {
  if (typeof data !== 'object' || data === null) return undefined;
  const said = data as Record<string, unknown>;
  if (said['koda'] !== 1) return undefined;
  const id = within(said['id'], 1, Number.MAX_SAFE_INTEGER);
  if (said['type'] === 'error') return { type: 'error', id, problem: text(said['message']) };
  if (said['type'] === 'picked') return { type: 'picked', id, picked: picked(said) };
  const time = within(said['time'], 0, LONGEST_S);
  if (time === undefined) return undefined;
  const playing = said['playing'] === true;
  if (said['type'] === 'state') return { type: 'state', id, time, playing };
  const [duration, fps] = [within(said['duration'], Number.MIN_VALUE, LONGEST_S), within(said['fps'], 1, MOST_FPS)];
  if (said['type'] !== 'ready' || duration === undefined || fps === undefined) return undefined;
  return { type: 'ready', id: undefined, timeline: { duration, fps }, time, playing, mutes: said['mutes'] === true };
}

function picked({ box, text: words, component, source }: Record<string, unknown>): Picked | undefined {
  if (typeof box !== 'object' || box === null) return undefined;
  const said = box as Record<string, unknown>;
  const [x, y] = [within(said['x'], -MOST_PX, MOST_PX), within(said['y'], -MOST_PX, MOST_PX)];
  const [width, height] = [within(said['width'], Number.MIN_VALUE, 2 * MOST_PX), within(said['height'], Number.MIN_VALUE, 2 * MOST_PX)];
  if (x === undefined || y === undefined || width === undefined || height === undefined) return undefined;
  return { box: { x, y, width, height }, text: text(words), component: text(component).slice(0, 200), source: text(source).slice(0, 300) };
}

function within(value: unknown, least: number, most: number): number | undefined {
  return typeof value === 'number' && value >= least && value <= most ? value : undefined;
}

function text(value: unknown): string {
  return typeof value === 'string' ? value.slice(0, MESSAGE_CHARS) : '';
}

export class LivePage {
  shown: Shown = { timeline: undefined, time: 0, playing: false, problem: '', mutes: false, muted: false };
  private readonly watchers = new Set<() => void>();
  private requests = 0;
  private sought: number | undefined;
  private wanted: number | undefined;
  private isDue = false;
  /** How it was last told to play; undefined where it was told to stand since, or nothing. */
  private how: How | undefined;
  /** Where to go on once the page is there, which is another one in an earlier one's place. */
  private resumes: { time: number; playing: boolean } | undefined;
  private readonly asked = new Map<number, (found: Picked | undefined) => void>();

  constructor(
    private readonly frame: () => Window | null | undefined,
    private readonly origin: string,
    private readonly nextFrame: Later = (told) => void requestAnimationFrame(told),
    private readonly given: Given = {},
  ) {
    const { before } = given;
    if (!before?.shown.timeline) return;
    this.how = before.how;
    this.resumes = before.resumes ?? { time: before.shown.time, playing: before.shown.playing };
    this.shown = { ...before.shown, ...this.resumes, problem: '' };
  }

  watch = (told: () => void): (() => void) => {
    this.watchers.add(told);
    return () => this.watchers.delete(told);
  };

  /** Hear one message of the window. */
  hear = (event: MessageEvent): void => {
    if (event.source === null || event.source !== this.frame() || event.origin !== this.origin) return;
    const told = read(event.data);
    if (told === undefined) return;
    if (told.id !== undefined && told.type !== 'state') this.answer(told.id, told.type === 'picked' ? told.picked : undefined);
    if (told.type === 'picked') return;
    if (told.type === 'ready') {
      this.sought = this.wanted = undefined;
      this.shown = { ...this.shown, mutes: told.mutes };
      if (this.shown.muted) this.request({ do: 'sound', muted: true }); // it is another page, which was not told yet
      this.begin(told.timeline, told.time, told.playing);
      return;
    }
    if (told.type === 'error') this.showLater({ problem: told.problem });
    if (this.sought !== undefined && told.id !== this.sought) return; // of before the request that is under way
    this.sought = undefined;
    if (this.wanted !== undefined) this.seek(this.wanted);
    else if (told.type === 'state') this.showLater({ time: told.time, playing: told.playing });
  };

  /** Show the frame of a time. One request is under way at most: of what is wanted meanwhile, the last is asked for next. */
  seek = (time: number): void => {
    this.how = undefined;
    this.show({ time, playing: false });
    if (this.resumes) return this.later({ time, playing: false });
    this.wanted = this.sought === undefined ? undefined : time;
    if (this.sought === undefined) this.sought = this.request({ do: 'seek', time });
  };

  play = (how: How): void => {
    this.how = how;
    if (this.resumes) return this.later({ playing: true });
    this.request({ do: 'play', ...how });
  };

  pause = (): void => {
    this.how = undefined;
    if (this.resumes) return this.later({ playing: false });
    this.request({ do: 'pause' });
  };

  /** What is at a point, in pixels of the design; undefined where there is nothing, or no answer. */
  pick = (x: number, y: number): Promise<Picked | undefined> =>
    new Promise((found) => {
      const id = this.request({ do: 'pick', x, y });
      this.asked.set(id, found);
      setTimeout(() => this.answer(id, undefined), PICKED_WITHIN_MS);
    });

  /** Show what is behind the page where the animation paints nothing. */
  clear = (isClear: boolean): void => void this.request({ do: 'ground', clear: isClear });

  /** Have it be heard, or not. */
  mute = (muted: boolean): void => {
    this.show({ muted });
    this.request({ do: 'sound', muted });
  };

  /** The page is there, and plays by itself: it goes on as an earlier one did, or rests where nothing is to move by itself. */
  private begin(timeline: Timeline, time: number, playing: boolean): void {
    const { resumes, how } = this;
    this.resumes = undefined;
    if (resumes) {
      this.shown = { ...this.shown, timeline };
      this.seek(resumes.time);
      if (resumes.playing) this.play(how ?? { rate: 1, from: 0, to: timeline.duration, loop: true });
      return;
    }
    const rests = playing && how === undefined && this.given.rests?.() === true;
    this.showLater({ timeline, time, playing: playing && !rests, problem: '' });
    if (rests) this.pause();
  }

  /** Nobody hears a request yet: it is carried out with the rest. */
  private later(what: Partial<{ time: number; playing: boolean }>): void {
    if (!this.resumes) return;
    this.resumes = { ...this.resumes, ...what };
    this.show(this.resumes);
  }

  private answer(id: number, found: Picked | undefined): void {
    this.asked.get(id)?.(found);
    this.asked.delete(id);
  }

  private show(what: Partial<Shown>): void {
    this.shown = { ...this.shown, ...what };
    for (const watcher of this.watchers) watcher();
  }

  /** Show what the page said with the next frame, with whatever it says until then. */
  private showLater(what: Partial<Shown>): void {
    this.shown = { ...this.shown, ...what };
    if (this.isDue) return;
    this.isDue = true;
    this.nextFrame(() => {
      this.isDue = false;
      this.show({});
    });
  }

  private request(what: object): number {
    this.requests += 1;
    this.frame()?.postMessage({ koda: 1, id: this.requests, ...what }, this.origin);
    return this.requests;
  }
}
