/** A koda server as nodes use it: requests, one stream of events for all of them, and what is known of their sessions. */
import { Addresses, type MediaLinks } from './addresses';
import { ask, type Ask, commandKey, Problem } from './http';
import { Makings } from './makings';
import { type Job, type NodeSession, progressIn } from './session';
import { Sessions } from './sessions';
import { Stream } from './stream';

export interface KodaOptions {
  /** Where the server is, without a slash at its end; left out, it is where the page came from. */
  base?: string;
  /**
   * Sent with every request, such as a key: `() => ({ Authorization: 'Bearer …' })`. What a page shows by itself, pictures and
   * videos, comes without; a server of another origin gives addresses that need none.
   */
  headers?: () => Record<string, string>;
  credentials?: RequestCredentials;
  /** The address of a session's studio. */
  studio?: (sessionId: string) => string;
  /** Goes there, by a double click; left out, the browser does. */
  open?: (sessionId: string) => void;
  /** Is told of whatever a request did not come to, such as a key that is not known any more. */
  hear?: (problem: Problem) => void;
  /** A stream that the page has already. */
  stream?: Stream;
}

export type CommandName = 'answer' | 'accept' | 'reject' | 'changes' | 'messages' | 'cancel' | 'retry' | 'render';

/** The body of `POST /v1/sessions`, as far as a node fills it. */
export interface CreateSession {
  prompt: string;
  style?: string;
  assetIds?: string[];
  options?: Record<string, string | number>;
  render?: Record<string, string | number>;
}

export class Koda {
  readonly base: string;
  readonly stream: Stream;
  readonly sessions: Sessions;
  readonly studio: (sessionId: string) => string;
  readonly open: (sessionId: string) => void;
  /** What is being typed, by its place: a node that is out of sight for a while keeps it. */
  readonly drafts = new Map<string, string>();
  private readonly addresses: Addresses;
  private readonly makings = new Map<string, Makings>();
  private readonly headers: () => Record<string, string>;
  private readonly credentials: RequestCredentials;
  private readonly hear: ((problem: Problem) => void) | undefined;

  constructor({ base = '', headers = () => ({}), credentials = 'same-origin', studio, open, hear, stream }: KodaOptions = {}) {
    this.base = base.replace(/\/$/, '');
    this.headers = headers;
    this.credentials = credentials;
    this.hear = hear;
    this.stream = stream ?? new Stream(this.base, headers, credentials);
    this.sessions = new Sessions(
      this.stream,
      (id) => this.ask<NodeSession>(`/v1/sessions/${id}`),
      undefined,
      async (id) => progressIn((await this.ask<{ jobs: Job[] }>(`/v1/sessions/${id}/jobs?limit=1`)).jobs),
    );
    this.addresses = new Addresses(
      (id, jobId) => this.ask<MediaLinks>(`/v1/sessions/${id}/media?job=${jobId}`),
      (id) => this.sessions.shownAnew(id),
    );
    this.studio = studio ?? ((id) => this.url(`/s/${id}`));
    this.open = open ?? ((id) => window.location.assign(this.studio(id)));
  }

  /** What is being begun on a canvas, for as long as the page is there. */
  makingsOn(canvas: string): Makings {
    const there = this.makings.get(canvas) ?? new Makings();
    this.makings.set(canvas, there);
    return there;
  }

  url(path: string): string {
    return this.base + path;
  }

  async ask<T>(path: string, asked: Ask = {}): Promise<T> {
    try {
      return await ask<T>(this.url(path), { credentials: this.credentials, ...asked, headers: { ...this.headers(), ...asked.headers } });
    } catch (problem) {
      if (problem instanceof Problem) this.hear?.(problem);
      throw problem;
    }
  }

  /** Begin a session; the same key makes it once. Returns its id. */
  async create(body: CreateSession, key: string): Promise<string> {
    return (await this.ask<{ sessionId: string }>('/v1/sessions', { method: 'POST', body, key })).sessionId;
  }

  /** Tell a session something; what is sent twice for the same state is the same command. */
  async command(session: NodeSession, name: CommandName, body?: object): Promise<void> {
    try {
      await this.ask(`/v1/sessions/${session.id}/${name}`, { method: 'POST', body, key: commandKey(name, session.seq, body) });
    } finally {
      this.sessions.reread(session.id);
    }
  }

  /** Store a picture, a film or a sound for one session; returns its id. */
  async upload(file: File): Promise<string> {
    const body = new FormData();
    body.append('file', file);
    return (await this.ask<{ id: string }>('/v1/assets', { method: 'POST', body })).id;
  }

  /**
   * The address of a session's video or poster, of one of its renders. Where the server has another origin than the page it is
   * asked for, and undefined until it is there: whoever watches the session is told.
   */
  media(sessionId: string, what: 'video' | 'thumbnail', jobId: string, { download = false } = {}): string | undefined {
    if (!this.isElsewhere()) return this.url(`/v1/sessions/${sessionId}/${what}?job=${jobId}${download ? '&download=true' : ''}`);
    const links = this.addresses.of(sessionId, jobId);
    const path = what === 'video' ? links?.videoUrl : links?.thumbnailUrl;
    return path === undefined ? undefined : this.url(`${path}${download ? '?download=true' : ''}`);
  }

  /** The address that a video is downloaded from, where the one that is there may be old. */
  async download(sessionId: string, jobId: string): Promise<string> {
    if (!this.isElsewhere()) return this.url(`/v1/sessions/${sessionId}/video?job=${jobId}&download=true`);
    return this.url(`${(await this.addresses.fresh(sessionId, jobId)).videoUrl}?download=true`);
  }

  /**
   * Whether a video that is not shown any more has, or is going to have, another address: one that came since, or one that is
   * asked for here where this one is old. `shown` is the address that shows nothing.
   */
  renew(sessionId: string, jobId: string, shown?: string): boolean {
    if (!this.isElsewhere()) return false;
    return (shown !== undefined && this.media(sessionId, 'video', jobId) !== shown) || this.addresses.renew(sessionId, jobId);
  }

  /** Whether the server has another origin than the page. */
  isElsewhere(): boolean {
    return this.base !== '' && typeof location !== 'undefined' && new URL(this.base, location.href).origin !== location.origin;
  }
}
