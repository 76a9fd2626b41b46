/**
 * What is to be made, and was not sent yet: words, how it should be, and the files that go with it.
 *
 * It is the page's and not the screen's where it is typed: whoever looks at something else meanwhile finds all of it again,
 * and a file that was on its way there.
 */
import { useSyncExternalStore } from 'react';
import { ask, newKey } from './client';
import { keep, keyOf, readKept } from './kept';
import { atChange } from './owner';
import { type Upload, uploads, type Uploads } from './uploads';

export interface Asked {
  prompt: string;
  duration: string;
  aspect: string;
  fps: string;
  takes: string;
}

export interface Attached {
  /** Of its upload, where it has one. */
  key: number;
  name: string;
  /** Once it is stored. */
  id?: string;
  /** Whether it was there before, and stays when it is taken out here. */
  stays?: boolean;
}

/** Where one composes. */
const AT = '/';
const NOTHING: Asked = { prompt: '', duration: '', aspect: '', fps: '', takes: '' };

export class Composing {
  asked = NOTHING;
  files: readonly Attached[] = [];
  seen = { ...this.asked, files: this.files };
  private sent = { key: '', said: '' };
  private named = 0;
  private readonly watchers = new Set<() => void>();

  constructor(
    private readonly uploads: Uploads,
    private readonly remove: (assetId: string) => void,
    private readonly kept = { read: () => NOTHING, put: (_: Asked) => {} },
  ) {}

  /** Go on with what was typed before the page was loaded, where nothing was since. */
  restore(): void {
    if (this.asked === NOTHING) this.put(this.kept.read());
  }

  watch = (told: () => void): (() => void) => {
    this.watchers.add(told);
    return () => this.watchers.delete(told);
  };

  put(what: Partial<Asked>): void {
    this.asked = { ...this.asked, ...what };
    this.kept.put(this.asked);
    this.show();
  }

  /** Store files, to go with it. */
  attach(files: Iterable<File>): void {
    for (const file of files) {
      const stored = (key: number, id: string) => this.show(this.files.map((each) => (each.key === key ? { ...each, id } : each)));
      const [key = 0] = this.uploads.add([file], { at: AT }, ({ id }) => stored(key, id));
      this.show([...this.files, { key, name: file.name }]);
    }
  }

  /** Have something go with it that is stored already. */
  name({ id, name }: { id: string; name: string }): void {
    if (!this.files.some((each) => each.id === id)) this.show([...this.files, { key: (this.named -= 1), name, id, stays: true }]);
  }

  drop({ key, id, stays }: Attached): void {
    this.show(this.files.filter((each) => each.key !== key));
    if (!id) this.uploads.drop(key);
    else if (!stays) this.remove(id);
  }

  /** A file was deleted elsewhere. */
  lost(assetId: string): void {
    this.show(this.files.filter(({ id }) => id !== assetId));
  }

  /** The body of the request that makes it. */
  get body() {
    const { prompt, duration, aspect, fps, takes } = this.asked;
    const options = { ...(duration ? { duration: Number(duration) } : {}), ...(aspect ? { aspect } : {}), ...(fps ? { fps: Number(fps) } : {}) };
    return { prompt, options, assetIds: this.files.flatMap(({ id }) => id ?? []), ...(takes ? { takes: Number(takes) } : {}) };
  }

  /** The key of a request: an answer that was lost may have been a yes, and what is sent again unchanged is the same request. */
  keyOf(said: string): string {
    if (this.sent.said !== said) this.sent = { key: newKey(), said };
    return this.sent.key;
  }

  /** It was refused: what is sent next is another request. */
  refused(): void {
    this.sent = { key: '', said: '' };
  }

  /** It was made: what was typed since stays. */
  made(said: string): void {
    if (JSON.stringify(this.body) === said) this.clear();
    else this.refused();
  }

  clear(): void {
    this.refused();
    for (const { key, id } of this.files) if (!id) this.uploads.drop(key);
    this.asked = NOTHING;
    this.kept.put(NOTHING);
    this.show([]);
  }

  private show(files = this.files): void {
    this.files = files;
    this.seen = { ...this.asked, files };
    for (const told of [...this.watchers]) told();
  }
}

/** Whether a file is on its way; one that was refused is not. */
export function isOnItsWay({ key, id }: Attached, list: readonly Upload[]): boolean {
  return id === undefined && list.find((each) => each.key === key)?.state !== 'refused';
}

export const composing = new Composing(
  uploads,
  (id) => {
    ask(`/v1/assets/${id}`, { method: 'DELETE' }).catch(() => undefined); // it takes room, and nothing else
  },
  { read: () => readKept(keyOf(AT, 'asked'), NOTHING), put: (asked) => keep(keyOf(AT, 'asked'), asked, NOTHING) },
);
atChange(() => composing.clear());

export function useComposing() {
  return useSyncExternalStore(composing.watch, () => composing.seen);
}
