/** A person's canvases as this browser has them: one entry of its storage each. What has them elsewhere as well is `shared.ts`. */
import { clock } from '../../node/src/clock';
import { newKey } from '../api/client';
import { calledBy, empty, type Layout, type Lost, read, UNNAMED, written } from './layout';

export interface Listed {
  id: string;
  name: string;
  changedAt: number;
  nodes: number;
  /** The sessions that are on it. */
  sessionIds: readonly string[];
}

/** How the address of a canvas says that an animation is to be put on it. */
export const PUT = 'put';

/** The address of a canvas onto which an animation is put. */
export function withAnimation(canvasId: string, sessionId: string): string {
  return `/c/${canvasId}?${new URLSearchParams({ [PUT]: sessionId })}`;
}

export type Kept = Pick<Storage, 'getItem' | 'setItem' | 'removeItem' | 'key' | 'length'>;

export class Canvases {
  private readonly prefix: string;
  private readonly last: string;
  private readonly hearing = new Set<(id: string) => void>();

  constructor(
    user: string,
    private readonly kept: Kept = localStorage,
  ) {
    this.prefix = `koda.canvas/${encodeURIComponent(user)}/`;
    this.last = `koda.canvas-last/${encodeURIComponent(user)}`;
  }

  ids(): string[] {
    const keys = Array.from({ length: this.kept.length }, (_, at) => this.kept.key(at) ?? '');
    return keys.filter((key) => key.startsWith(this.prefix)).map((key) => key.slice(this.prefix.length));
  }

  /** What was changed last comes first. */
  list(): Listed[] {
    const found = this.ids().map((id): Listed => {
      const { name, changedAt, nodes } = read(this.kept.getItem(this.prefix + id) ?? '').layout;
      const sessionIds = nodes.flatMap(({ data }) => (typeof data.sessionId === 'string' ? data.sessionId : []));
      return { id, name, changedAt, nodes: nodes.length, sessionIds };
    });
    return found.sort(lastChangedFirst);
  }

  /** The id of the one that was open last. */
  lastOpen(): string | undefined {
    return this.kept.getItem(this.last) ?? undefined;
  }

  opened(id: string): void {
    try {
      this.kept.setItem(this.last, id);
    } catch {
      // nothing is lost by it
    }
  }

  has(id: string): boolean {
    return this.kept.getItem(this.prefix + id) !== null;
  }

  /** Begin one, which is called otherwise than others. */
  create(others: readonly Pick<Listed, 'name'>[] = this.list()): string {
    const names = new Set(others.map(({ name }) => name));
    let name = UNNAMED;
    for (let number = 2; names.has(name); number += 1) name = `${UNNAMED} ${number}`;
    const id = newKey().slice(0, 12);
    try {
      this.write(id, { ...empty(name), changedAt: clock.now() });
    } catch {
      // it is there as long as it is looked at, and the next change says that it is not kept
    }
    return id;
  }

  /** What is kept of one; undefined where there is none. */
  read(id: string): { layout: Layout; lost: Lost } | undefined {
    const text = this.kept.getItem(this.prefix + id);
    return text === null ? undefined : read(text);
  }

  /** Throws where the browser has no room for it. */
  write(id: string, layout: Layout): void {
    this.kept.setItem(this.prefix + id, written(layout));
    for (const told of [...this.hearing]) told(id);
  }

  rename(id: string, name: string): void {
    const there = this.read(id);
    if (there) this.write(id, { ...there.layout, name: calledBy(name), changedAt: Math.max(clock.now(), there.layout.changedAt + 1) });
  }

  remove(id: string): void {
    this.kept.removeItem(this.prefix + id);
  }

  /** Hear when one is written here. */
  hear(told: (id: string) => void): void {
    this.hearing.add(told);
  }

  /** Hear when another window changes one, or removes it. */
  watch(told: (id: string) => void): () => void {
    const heard = ({ key }: StorageEvent) => key?.startsWith(this.prefix) && told(key.slice(this.prefix.length));
    window.addEventListener('storage', heard);
    return () => window.removeEventListener('storage', heard);
  }
}

export function lastChangedFirst(one: Listed, other: Listed): number {
  return other.changedAt - one.changedAt || one.id.localeCompare(other.id);
}
