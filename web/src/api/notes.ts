/** Notes on what somebody points at, kept as they are typed until they are sent together. */
import { createContext, useContext } from 'react';
import type { Schemas } from './client';

export type Note = Schemas['Note'];

/** A note that is not sent yet. */
export interface Draft extends Note {
  key: number;
}

/** What a note is of, in words. */
export function whatIs({ element, component, box }: Note): string {
  const named = [element && `“${short(element)}”`, component].filter(Boolean).join(' · ');
  return named || (box ? 'A box in the picture' : 'The whole picture');
}

export function short(text: string): string {
  return text.length > 40 ? `${text.slice(0, 39)}…` : text;
}

/** What shows the picture that is pointed at. */
export interface Stage {
  show: (note: Note) => void;
  point: () => void;
}

export const MOST = 12;
const KEPT = 'koda.notes.';

export class Notes {
  list: readonly Draft[];
  stage: Stage | undefined;
  /** The one that was added last, whose words are to come next. */
  newest: number | undefined;
  private readonly watchers = new Set<() => void>();
  private readonly taken = new Map<number, Promise<unknown>>();
  private keys: number;

  constructor(
    private readonly sessionId: string,
    private readonly kept: Storage = sessionStorage,
  ) {
    this.list = read(kept.getItem(KEPT + sessionId));
    this.keys = this.list.reduce((most, { key }) => Math.max(most, key), 0);
  }

  watch = (told: () => void): (() => void) => {
    this.watchers.add(told);
    return () => this.watchers.delete(told);
  };

  /** Add one; `picture` brings what it is of, as soon as that is stored. */
  add(note: Omit<Note, 'text'>, picture: () => Promise<string | undefined>): void {
    if (this.list.length >= MOST) return;
    const key = (this.keys += 1);
    this.newest = key;
    this.put([...this.list, { ...note, text: '', key }]);
    const taken = picture().then(
      (id) => id && this.change(key, { picture: id }),
      () => undefined, // the words say what is meant
    );
    this.taken.set(key, taken);
    void taken.finally(() => this.taken.delete(key));
  }

  /** Have notes again that were sent and taken back, behind those that are there: none is dropped, however many they are. */
  giveBack(notes: readonly Note[]): void {
    if (notes.length > 0) this.put([...this.list, ...notes.map((note) => ({ ...note, key: (this.keys += 1) }))]);
  }

  change(key: number, what: Partial<Note>): void {
    this.put(this.list.map((each) => (each.key === key ? { ...each, ...what } : each)));
  }

  remove(key: number): void {
    this.put(this.list.filter((each) => each.key !== key));
  }

  /** Let go of those that were sent, and of none that came meanwhile. */
  clear(sent: readonly number[]): void {
    this.put(this.list.filter(({ key }) => !sent.includes(key)));
  }

  /** What is to be sent of some of them, or of all, once their pictures are stored that are under way. */
  async written(keys: readonly number[] = this.list.map(({ key }) => key)): Promise<Note[]> {
    await Promise.all(keys.map((key) => this.taken.get(key)));
    return this.list.filter(({ key, text }) => keys.includes(key) && text.trim()).map(({ key: _, ...note }) => ({ ...note, text: note.text.trim() }));
  }

  private put(list: readonly Draft[]): void {
    this.list = list;
    if (list.length > 0) this.kept.setItem(KEPT + this.sessionId, JSON.stringify(list));
    else this.kept.removeItem(KEPT + this.sessionId);
    for (const told of this.watchers) told();
  }
}

const all = new Map<string, Notes>();

/** The notes of a session, the same ones each time: a picture that is stored later finds its note, wherever one is by then. */
export function notesOf(sessionId: string): Notes {
  const there = all.get(sessionId) ?? new Notes(sessionId);
  all.set(sessionId, there);
  return there;
}

function read(kept: string | null): Draft[] {
  try {
    const found = JSON.parse(kept ?? '[]') as unknown;
    return Array.isArray(found) ? (found as Draft[]).filter(({ key, text }) => Number.isFinite(key) && typeof text === 'string') : [];
  } catch {
    return [];
  }
}

/** The notes of the session that is shown and its picture's size in pixels; undefined where nothing can be asked for now. */
export const Pointing = createContext<{ notes: Notes; width: number; height: number } | undefined>(undefined);

export function usePointing() {
  return useContext(Pointing);
}
