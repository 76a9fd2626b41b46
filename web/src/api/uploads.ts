/**
 * Files on their way to the server: how far each is, and what became of it.
 *
 * They are the page's and no screen's: whoever leaves the one where a file was brought finds it there again, and hears of
 * what was not taken wherever they are by then. A request of `XMLHttpRequest`, since `fetch` does not tell how much was sent.
 */
import { useMemo, useSyncExternalStore } from 'react';
import { newKey, Problem, type Schemas } from './client';
import { atChange } from './owner';

type Asset = Schemas['AssetView'];

/** Where a file was brought. */
export interface Where {
  /** The address of that screen. */
  at: string;
  /** The node of a canvas that it goes into. */
  into?: string;
}

export interface Upload extends Where {
  readonly key: number;
  readonly name: string;
  readonly size: number;
  /** Of it that is sent, 0 to 1. */
  readonly sent: number;
  /** One that rests is held back, as what it goes into is not there. */
  readonly state: 'waits' | 'goes' | 'refused' | 'rests';
  /** Why it was not taken. */
  readonly said?: string | undefined;
  /** Whether it was not taken for ever: the same file never will be. */
  readonly isFinal?: boolean;
  /** Whether it was refused while somebody was elsewhere, and has not been told yet. */
  readonly isUntold?: boolean;
}

/** How one ended. */
export interface Ended {
  upload: Upload;
  /** Undefined where it was refused. */
  asset?: Asset;
  /** Whether somebody was elsewhere by then. */
  isElsewhere: boolean;
}

/** Sends a file under a key: sent again under it, it is stored once. */
type Send = (file: File, told: (sent: number) => void, signal: AbortSignal, once: string) => Promise<Asset>;

interface Held {
  file: File;
  once: string;
  stop: AbortController;
  stored: (asset: Asset) => void;
}

/** So many of one screen go at a time, and of all screens: a prompt's picture does not wait for all films of another one. */
const AT_ONCE = 2;
const MOST_AT_ONCE = 3;
/** What is answered where a file itself is too large, or none that is taken: nothing but another file helps. */
const OF_THE_FILE: readonly number[] = [413, 415, 422];

export class Uploads {
  list: readonly Upload[] = [];
  private readonly held = new Map<number, Held>();
  private readonly watchers = new Set<() => void>();
  private readonly hearers = new Set<(ended: Ended) => void>();
  private next = 1;

  constructor(
    private readonly send: Send = sendFile,
    private readonly here = () => window.location.pathname,
  ) {}

  watch = (told: () => void): (() => void) => {
    this.watchers.add(told);
    return () => this.watchers.delete(told);
  };

  /** Hear of each that ends. */
  hear(heard: (ended: Ended) => void): () => void {
    this.hearers.add(heard);
    return () => this.hearers.delete(heard);
  }

  get areUnderWay(): boolean {
    return this.list.some(isUnderWay);
  }

  /** Send files; `stored` gets each, wherever somebody is by then. Returns their keys. */
  add(files: Iterable<File>, { at, into }: Where, stored: (asset: Asset) => void = () => {}): number[] {
    const added: Upload[] = [];
    for (const file of files) {
      const key = this.next++;
      this.held.set(key, { file, once: newKey(), stop: new AbortController(), stored });
      added.push({ key, name: file.name, size: file.size, sent: 0, state: 'waits', at, ...(into === undefined ? {} : { into }) });
    }
    this.say([...this.list, ...added]);
    this.go();
    return added.map(({ key }) => key);
  }

  /** Send one again that was not taken, or rests. */
  again(key: number): void {
    const held = this.held.get(key);
    const state = this.found(key)?.state;
    if (!held || (state !== 'refused' && state !== 'rests')) return;
    held.stop = new AbortController();
    this.put(key, { state: 'waits', sent: 0, said: undefined, isUntold: false });
    this.go();
  }

  /** Hold one back, until it is sent again. */
  rest(key: number): void {
    const state = this.found(key)?.state;
    if (state === undefined || state === 'rests') return;
    this.held.get(key)?.stop.abort();
    this.put(key, { state: 'rests', sent: 0, said: undefined, isUntold: false });
    this.go();
  }

  /** Stop one, or forget it. */
  drop(key: number): void {
    this.held.get(key)?.stop.abort();
    this.held.delete(key);
    this.say(this.list.filter((each) => each.key !== key));
    this.go();
  }

  close(): void {
    for (const { stop } of this.held.values()) stop.abort();
    this.held.clear();
    this.say([]);
  }

  /** Somebody knows of those that were refused at a screen, or of one of them. */
  told(of: string | number): void {
    const isNews = (each: Upload) => each.isUntold && (each.at === of || each.key === of);
    if (this.list.some(isNews)) this.say(this.list.map((each) => (isNews(each) ? { ...each, isUntold: false } : each)));
  }

  private go(): void {
    for (const { key, at } of this.list.filter(({ state }) => state === 'waits')) {
      const going = this.list.filter(({ state }) => state === 'goes');
      if (going.length >= MOST_AT_ONCE) return;
      if (going.filter((each) => each.at === at).length < AT_ONCE) void this.one(key);
    }
  }

  private async one(key: number): Promise<void> {
    const held = this.held.get(key);
    if (!held) return;
    const { signal } = held.stop;
    this.put(key, { state: 'goes' });
    try {
      const asset = await this.send(held.file, (sent) => signal.aborted || this.put(key, { sent }), signal, held.once);
      if (signal.aborted) return;
      held.stored(asset);
      this.end(key, asset);
      this.drop(key);
    } catch (error) {
      if (signal.aborted) return;
      this.put(key, { state: 'refused', said: error instanceof Error ? error.message : String(error), isFinal: error instanceof Problem && OF_THE_FILE.includes(error.status) });
      this.end(key);
      this.go();
    }
  }

  private end(key: number, asset?: Asset): void {
    const isElsewhere = this.found(key)?.at !== this.here();
    if (!asset) this.put(key, { isUntold: isElsewhere });
    const upload = this.found(key);
    if (upload) for (const heard of [...this.hearers]) heard({ upload, isElsewhere, ...(asset ? { asset } : {}) });
  }

  private found(key: number): Upload | undefined {
    return this.list.find((each) => each.key === key);
  }

  private put(key: number, what: Partial<Upload>): void {
    this.say(this.list.map((each) => (each.key === key ? { ...each, ...what } : each)));
  }

  private say(list: readonly Upload[]): void {
    this.list = list;
    for (const told of [...this.watchers]) told();
  }
}

export function isUnderWay({ state }: Upload): boolean {
  return state === 'waits' || state === 'goes';
}

/** Why a file was not taken, with its name, which what the server says begins with where it is about what the file is. */
export function refusalOf({ name, said = '' }: Pick<Upload, 'name' | 'said'>): string {
  const quoted = `'${name}'`;
  return said.startsWith(quoted) ? name + said.slice(quoted.length) : `${name}: ${said}`;
}

/** The same beneath its name. */
export function refusalBelow({ name, said = '' }: Pick<Upload, 'name' | 'said'>): string {
  const quoted = `'${name}'`;
  return said.startsWith(quoted) ? `It${said.slice(quoted.length)}` : said;
}

/** How much of several is sent, 0 to 1. */
export function sentOf(list: readonly Upload[]): number {
  const size = list.reduce((sum, each) => sum + each.size, 0);
  return size === 0 ? 0 : list.reduce((sum, each) => sum + each.sent * each.size, 0) / size;
}

/** The files of this page. */
export const uploads = new Uploads();
atChange(() => uploads.close());

/** Whoever closes the page is asked first, for as long as files would be lost by it. */
const asks = (event: BeforeUnloadEvent) => event.preventDefault();
uploads.watch(() => {
  if (uploads.areUnderWay) window.addEventListener('beforeunload', asks);
  else window.removeEventListener('beforeunload', asks);
});

export function useUploads(at: string): readonly Upload[] {
  const list = useSyncExternalStore(uploads.watch, () => uploads.list);
  return useMemo(() => list.filter((each) => each.at === at), [list, at]);
}

/** The files that somebody drops or pastes; none where it is something else. */
export function filesOf(given: Pick<DataTransfer, 'files' | 'types'> | null): File[] {
  return given?.types.includes('Files') ? [...given.files] : [];
}

/** Store the picture of a note, of which nobody is told how far it is: it is none of somebody's files. */
export function storePicture(file: File): Promise<Asset> {
  return sendFile(file, () => undefined, new AbortController().signal, newKey(), 'note');
}

export function sendFile(file: File, told: (sent: number) => void, signal: AbortSignal, once: string, purpose: Asset['purpose'] = 'file'): Promise<Asset> {
  return new Promise((done, fail) => {
    const request = new XMLHttpRequest();
    const body = new FormData();
    body.append('file', file);
    if (purpose !== 'file') body.append('purpose', purpose);
    request.open('POST', '/v1/assets');
    request.setRequestHeader('Idempotency-Key', once);
    request.responseType = 'json';
    request.upload.onprogress = ({ loaded, total }) => told(total ? loaded / total : 0);
    request.onload = () => {
      const answer = request.response as (Asset & Partial<Schemas['Problem']>) | null;
      if (request.status < 300 && answer) return done(answer);
      fail(new Problem(request.status, answer?.code ?? `HTTP_${request.status}`, answer?.detail ?? request.statusText));
    };
    request.onerror = () => fail(new Problem(0, 'UNREACHABLE', 'The server does not answer. Send it again in a moment.'));
    signal.addEventListener('abort', () => request.abort());
    request.send(body);
  });
}
