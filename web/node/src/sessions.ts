/**
 * What is known of sessions, for all nodes at once.
 *
 * A canvas unmounts a node that is out of sight, and mounts it again: what is known stays here, and a session goes on being
 * followed for a while after nobody shows it. Its work is the server's, and hangs on nothing here.
 */
import { Problem } from './http';
import { paced } from './pace';
import { mayRender, type NodeSession, type Progress, type SessionEvent } from './session';
import type { Stream } from './stream';

const REREAD_MS = 120;
const LINGER_MS = 20_000;
const AGAIN_MS = 3_000;

export interface Seen {
  session?: NodeSession;
  progress?: Progress;
  thinking: string;
  problem?: Problem;
  /** Deleted, or none of whoever asks. */
  gone: boolean;
}

interface Held {
  seen: Seen;
  watchers: Set<() => void>;
  follows?: (() => void) | undefined;
  leaving?: ReturnType<typeof setTimeout> | undefined;
  reread: () => void;
  again?: ReturnType<typeof setTimeout> | undefined;
  /** How often something was heard of its renders: then that is newer than what a row says. */
  heard: number;
}

const NOTHING: Seen = { thinking: '', gone: false };

export class Sessions {
  private readonly held = new Map<string, Held>();

  constructor(
    private readonly stream: Pick<Stream, 'follow'>,
    private readonly read: (id: string) => Promise<NodeSession>,
    private readonly lingerMs = LINGER_MS,
    /** How far a session's render is: what was told of that before it is followed is not told again. */
    private readonly far: (id: string) => Promise<Progress | undefined> = async () => undefined,
  ) {}

  /** What is known of a session; the same object until something changes. */
  seen(id: string | undefined): Seen {
    return (id !== undefined && this.held.get(id)?.seen) || NOTHING;
  }

  /** Be told whenever something of a session changes; returns what ends that. */
  watch(id: string, told: () => void): () => void {
    const one = this.hold(id);
    one.watchers.add(told);
    clearTimeout(one.leaving);
    if (!one.follows && !one.seen.gone) one.reread();
    return () => {
      one.watchers.delete(told);
      if (one.watchers.size === 0) one.leaving = setTimeout(() => this.leave(one), this.lingerMs);
    };
  }

  /** Have whoever shows a session show it anew, where what it is shown with has changed. */
  shownAnew(id: string): void {
    const one = this.held.get(id);
    if (one) this.show(one, {});
  }

  /** Read a session anew, as after a command. */
  reread(id: string): void {
    this.hold(id).reread();
  }

  private hold(id: string): Held {
    const there = this.held.get(id);
    if (there) return there;
    const made: Held = { seen: NOTHING, watchers: new Set(), heard: 0, reread: paced(() => void this.load(id, made), REREAD_MS) };
    this.held.set(id, made);
    return made;
  }

  private async load(id: string, one: Held): Promise<void> {
    clearTimeout(one.again);
    try {
      const session = await this.read(id);
      if ((one.seen.session?.seq ?? -1) > session.seq) return; // an older answer came later
      this.show(one, { session, problem: undefined, gone: false }); // one that was deleted may be back
      if (one.follows || one.watchers.size === 0) return;
      one.follows = this.stream.follow(id, session.seq, (event) => this.hear(one, event));
      if (mayRender(session.state.owes)) void this.seed(id, one);
      else if (one.seen.progress) this.show(one, { progress: undefined });
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      if (error.status === 404) this.end(one);
      else this.show(one, { problem: error });
      if (error.status === 0 || error.status >= 500) one.again = setTimeout(() => one.watchers.size > 0 && one.reread(), AGAIN_MS);
    }
  }

  private async seed(id: string, one: Held): Promise<void> {
    const { heard } = one;
    const progress = await this.far(id).catch(() => undefined); // the next that is heard says it as well
    if (heard === one.heard) this.show(one, { progress });
  }

  private hear(one: Held, event: SessionEvent): void {
    const { type, data } = event;
    if (type.startsWith('render_') || (type === 'state_change' && !data?.['owes'])) one.heard += 1;
    if (type === 'gone') return this.end(one);
    if (type === 'render_progress') return this.show(one, { progress: data as unknown as Progress });
    if (type === 'thinking') return this.show(one, { thinking: String(data?.['message'] ?? '') });
    if (type === 'state_change') this.show(one, { thinking: '', ...(data?.['owes'] ? {} : { progress: undefined }) });
    if (type === 'render_start' || type === 'render_complete') this.show(one, { progress: undefined });
    one.reread();
  }

  private end(one: Held): void {
    this.leave(one);
    this.show(one, { gone: true, progress: undefined, thinking: '' });
  }

  private leave(one: Held): void {
    one.follows?.();
    one.follows = undefined;
    clearTimeout(one.again);
  }

  private show(one: Held, what: { [K in keyof Seen]?: Seen[K] | undefined }): void {
    one.seen = { ...one.seen, ...what } as Seen;
    for (const told of [...one.watchers]) told();
  }
}
