/**
 * One connection for all that a page shows.
 *
 * Whoever shows a session says from which number on it follows it; the connection is opened anew whenever that changes,
 * with every session's own number, so nothing is lost or doubled. A connection that breaks comes back by itself.
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
const AGAIN_MS = [250, 500, 1000, 2000, 4000];

export class Stream {
  link: Link = 'connecting';
  private readonly followed = new Map<string, { seq: number; listeners: Set<Listener> }>();
  private readonly watchers = new Set<() => void>();
  private running: AbortController | undefined;
  private settling: ReturnType<typeof setTimeout> | undefined;
  private failures = 0;

  /** `base` is where the server is, `headers` what it is asked with; without a base it is the page's own. */
  constructor(
    private readonly base = '',
    private readonly headers: () => Record<string, string> = () => ({}),
    private readonly credentials: RequestCredentials = 'same-origin',
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
    this.settling = setTimeout(() => this.open(), SETTLE_MS);
  }

  private open(): void {
    this.running?.abort();
    this.running = undefined;
    if (this.followed.size === 0) return;
    this.running = new AbortController();
    void this.run(this.running.signal);
  }

  private async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted && this.followed.size > 0) {
      try {
        await this.read(signal);
        this.failures = 0;
      } catch (error) {
        if (signal.aborted) return;
        this.failures += 1;
        if (this.link !== 'signed-out') this.say('lost');
      }
      const pause = AGAIN_MS[Math.min(this.failures, AGAIN_MS.length - 1)] ?? 4000;
      await new Promise((done) => setTimeout(done, pause));
    }
  }

  private async read(signal: AbortSignal): Promise<void> {
    const asked = new URLSearchParams();
    for (const [id, { seq }] of this.followed) asked.append('sessions', `${id}:${seq}`);
    for (const type of TYPES) asked.append('types', type);
    const response = await fetch(`${this.base}/v1/events?${asked}`, { signal, headers: this.headers(), credentials: this.credentials });
    if (!response.ok || response.body === null) {
      this.say(response.status === 401 ? 'signed-out' : 'lost');
      throw new Error(String(response.status));
    }
    this.failures = 0;
    this.say('live');
    const decoder = new SseDecoder();
    const pieces = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { done, value } = await pieces.read();
      if (done || signal.aborted) return;
      for (const { data } of decoder.feed(value)) this.hear(JSON.parse(data) as SessionEvent);
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
