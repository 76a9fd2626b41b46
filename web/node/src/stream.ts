/**
 * One connection for all that a page shows.
 *
 * Whoever shows a session says from which number on it follows it; the connection is opened anew whenever that changes,
 * with every session's own number, so nothing is lost or doubled. A connection that breaks comes back by itself, and one that
 * only seems to be there, since nothing comes any more, is opened anew. The server tells so many sessions in one connection:
 * more are told in a few, and of still more those that a list has first.
 */
import type { SessionEvent } from './session';
import { SseDecoder } from './sse';

export type Link = 'live' | 'connecting' | 'lost' | 'signed-out';
type Listener = (event: SessionEvent) => void;

const TYPES = [
  'state_change', 'todo_update', 'thinking', 'message', 'preview_ready', 'render_start', 'render_progress',
  'render_complete', 'approval_requested', 'approval_resolved', 'error', 'command_refused', 'rewound', 'file_written',
]; // prettier-ignore
const SETTLE_MS = 30;
/** The server says something every 15 s, if only that it is there. */
const SILENT_MS = 45_000;
/**
 * Sessions that one connection tells, and connections beside which a browser leaves room for everything else: in one tab.
 * Over HTTP/1.1 it has six to a server, and all tabs share them.
 */
const MOST_TOLD = 100;
const MOST_OPEN = 3;
const AGAIN_MS = [250, 500, 1000, 2000, 4000];

export class Stream {
  link: Link = 'connecting';
  private readonly followed = new Map<string, { seq: number; listeners: Set<Listener> }>();
  private readonly watchers = new Set<() => void>();
  private running: AbortController | undefined;
  private settling: ReturnType<typeof setTimeout> | undefined;
  private readonly lost = new Set<number>();

  /**
   * `base` is where the server is, `headers` what it is asked with; without a base it is the page's own. `more` are types of events
   * that are heard beside those of which a session's state is told.
   */
  constructor(
    private readonly base = '',
    private readonly headers: () => Record<string, string> = () => ({}),
    private readonly credentials: RequestCredentials = 'same-origin',
    private readonly more: readonly string[] = [],
  ) {}

  /** Hear what happens in a session after a number; returns what ends that. */
  follow(sessionId: string, after: number, listener: Listener): () => void {
    const there = this.followed.get(sessionId);
    if (there) there.listeners.add(listener);
    else {
      this.followed.set(sessionId, { seq: after, listeners: new Set([listener]) });
      this.settle();
    }
    return () => {
      const one = this.followed.get(sessionId);
      one?.listeners.delete(listener);
      if (one?.listeners.size === 0) {
        this.followed.delete(sessionId);
        this.settle();
      }
    };
  }

  /** Be told when the connection is lost or back. */
  watch = (told: () => void): (() => void) => {
    this.watchers.add(told);
    return () => this.watchers.delete(told);
  };

  private settle(): void {
    clearTimeout(this.settling);
    this.settling = setTimeout(this.open, SETTLE_MS);
  }

  private readonly open = (): void => {
    this.running?.abort();
    this.running = undefined;
    this.lost.clear();
    const ids = [...this.followed.keys()].slice(0, MOST_TOLD * MOST_OPEN);
    if (ids.length === 0) {
      this.say('connecting'); // nothing is asked for, so nothing is lost
      return;
    }
    this.running = new AbortController();
    const { signal } = this.running;
    // a browser that is back in a network knows that before any pause is over
    if ('addEventListener' in globalThis) globalThis.addEventListener('online', this.open, { signal });
    for (let at = 0; at * MOST_TOLD < ids.length; at += 1) void this.run(at, ids.slice(at * MOST_TOLD, (at + 1) * MOST_TOLD), signal);
  };

  private async run(at: number, ids: readonly string[], signal: AbortSignal): Promise<void> {
    let failures = 0;
    while (!signal.aborted && ids.some((id) => this.followed.has(id))) {
      try {
        await this.read(at, ids, signal);
        failures = 0;
      } catch {
        if (signal.aborted) return;
        failures = this.lost.has(at) ? failures + 1 : 1; // it was there in between
        this.lost.add(at);
        if (this.link !== 'signed-out') this.say('lost');
      }
      const pause = AGAIN_MS[Math.min(failures, AGAIN_MS.length - 1)] ?? 4000;
      await new Promise((done) => setTimeout(done, pause));
    }
  }

  private async read(at: number, ids: readonly string[], signal: AbortSignal): Promise<void> {
    const asked = new URLSearchParams();
    for (const id of ids) {
      const one = this.followed.get(id);
      if (one) asked.append('sessions', `${id}:${one.seq}`);
    }
    for (const type of [...TYPES, ...this.more]) asked.append('types', type);
    const silent = new AbortController();
    let timer = setTimeout(() => silent.abort(), SILENT_MS);
    const heard = () => {
      clearTimeout(timer);
      timer = setTimeout(() => silent.abort(), SILENT_MS);
    };
    try {
      const either = AbortSignal.any([signal, silent.signal]);
      const response = await fetch(`${this.base}/v1/events?${asked}`, { signal: either, headers: this.headers(), credentials: this.credentials });
      if (!response.ok || response.body === null) {
        this.say(response.status === 401 ? 'signed-out' : 'lost');
        throw new Error(String(response.status));
      }
      this.lost.delete(at);
      if (this.lost.size === 0) this.say('live');
      const decoder = new SseDecoder();
      const pieces = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        heard();
        const { done, value } = await pieces.read();
        if (done || signal.aborted) return;
        for (const { data } of decoder.feed(value)) this.hear(JSON.parse(data) as SessionEvent);
      }
    } finally {
      clearTimeout(timer);
    }
  }

  private hear(event: SessionEvent): void {
    const one = this.followed.get(event.streamId);
    if (!one) return;
    if (event.type === 'gone') this.followed.delete(event.streamId);
    else if (event.type === 'resync') one.seq = event.seq;
    else if (event.seq <= one.seq) return;
    else one.seq = event.seq;
    for (const listener of [...one.listeners]) listener(event);
  }

  private say(link: Link): void {
    if (link === this.link) return;
    this.link = link;
    for (const told of this.watchers) told();
  }
}
