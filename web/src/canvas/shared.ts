/**
 * A person's canvases, which are the same in every browser: the server keeps them, and this browser has those that were open in it.
 *
 * What is drawn is kept here at once and sent a moment later, so that it is there though the server is away. Of each canvas is known
 * which version of the server's it was made of: where it was changed elsewhere meanwhile, the server refuses it, nothing is written
 * over, and the person says how it goes on. Those that lie here and were never sent are sent once.
 */
import { useSyncExternalStore } from 'react';
import { ask, newKey, Problem, type Schemas, unlessGone } from '../api/client';
import { whose } from '../api/owner';
import { isPassing, reach } from '../api/reach';
import { Canvases, type Kept, lastChangedFirst, type Listed } from './canvases';
import { bodyOf, calledBy, fromServer, isBlank, type Layout } from './layout';

type Head = Schemas['CanvasSummary'];

export interface Server {
  list: () => Promise<readonly Head[]>;
  get: (id: string) => Promise<Schemas['CanvasView']>;
  put: (id: string, body: object) => Promise<Head>;
  remove: (id: string) => Promise<void>;
}

/** What a canvas here was made of: a version of the server's, which it was equal to when it was changed at this time. */
interface Known {
  version: number;
  changedAt: number;
  /** It was deleted here, and the server is still to hear that. */
  isGone?: boolean;
}

/** What the server said of a canvas that it did not take. */
export interface Refused {
  problem: Problem;
  /** It was changed elsewhere, and the person is to say how it goes on. */
  isConflict: boolean;
  /** As it was changed last, which is not sent again. */
  changedAt: number;
}

export interface Standing {
  /** Whether the server was asked, whatever came of it. */
  isRead: boolean;
  /** Whether it did not answer. */
  isAway: boolean;
  refused: ReadonlyMap<string, Refused>;
}

const SEND_MS = 800;
const LOOK_MS = 20_000;
const CONFLICT = 409;
const GONE = 404;

const served: Server = {
  list: async () => (await ask<Schemas['CanvasList']>('/v1/canvases')).canvases,
  get: (id) => ask(`/v1/canvases/${id}`),
  put: (id, body) => ask(`/v1/canvases/${id}`, { method: 'PUT', body }),
  remove: (id) => ask(`/v1/canvases/${id}`, { method: 'DELETE' }),
};

export class Shared {
  shown: Standing = { isRead: false, isAway: false, refused: new Map() };
  /** Has what is drawn and not kept yet be kept, before anybody looks at what is kept. */
  settle: (id: string) => void = () => {};
  private heads: ReadonlyMap<string, Head> = new Map();
  private readonly watchers = new Set<() => void>();
  private readonly hearing = new Set<(id: string) => void>();
  private readonly place: string;
  private last: Promise<unknown> = Promise.resolve();
  private waiting: Promise<void> | undefined;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private end: (() => void) | undefined;

  constructor(
    private readonly user: string,
    private readonly kept: Kept = localStorage,
    private readonly server: Server = served,
    readonly canvases = new Canvases(user, kept),
  ) {
    this.place = `koda.canvas-shared/${encodeURIComponent(user)}`;
    canvases.hear(() => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => void this.sync(), SEND_MS);
    });
  }

  watch = (told: () => void): (() => void) => {
    this.watchers.add(told);
    this.end ??= this.begin();
    return () => {
      this.watchers.delete(told);
      if (this.watchers.size > 0) return;
      this.end?.();
      this.end = undefined;
    };
  };

  /** Hear that a canvas here is another one by what was done elsewhere, or is gone. */
  hear(told: (id: string) => void): void {
    this.hearing.add(told);
  }

  /** All of them, whether or not they are here; what was changed last comes first. */
  list(): Listed[] {
    const here = this.canvases.list();
    const [had, known] = [new Set(here.map(({ id }) => id)), this.known()];
    const there = [...this.heads.values()].filter(({ id }) => !had.has(id) && !known[id]?.isGone);
    return [...here, ...there.map(listed)].sort(lastChangedFirst);
  }

  /** Whether there is such a one, here or there. */
  has(id: string): boolean {
    return this.canvases.has(id) || (this.heads.has(id) && !this.known()[id]?.isGone);
  }

  /** The id of the one that was open last, else of another; a new one where there is none. */
  current(): string {
    const last = this.canvases.lastOpen();
    return last !== undefined && this.has(last) ? last : (this.list()[0]?.id ?? this.create());
  }

  create(): string {
    return this.canvases.create(this.list());
  }

  /** Have one here that may be only there so far. */
  bring(id: string): Promise<void> {
    return this.inTurn(async () => {
      if (!this.canvases.has(id) && this.heads.has(id)) await this.take(id);
    });
  }

  /** Have what is drawn on one that could not be read not be taken for a change of what the server has. */
  doubt(id: string): void {
    this.know(id, undefined);
  }

  async rename(id: string, name: string): Promise<void> {
    await this.bring(id);
    this.canvases.rename(id, name);
  }

  remove(id: string): void {
    const known = this.known()[id] ?? this.heads.get(id);
    this.canvases.remove(id);
    this.know(id, known && { version: known.version, changedAt: 0, isGone: true });
    // there is room for another one
    this.show({ refused: new Map([...this.shown.refused].filter(([each, { isConflict }]) => each !== id && isConflict)) });
    void this.sync();
  }

  /** Have what was drawn here, and what was drawn there, be what they are together; one after the other. */
  sync(): Promise<void> {
    this.waiting ??= this.inTurn(() => {
      this.waiting = undefined;
      return this.exchange();
    });
    return this.waiting;
  }

  /** Show what was drawn elsewhere; what was drawn here is another canvas from now on. */
  takeTheirs(id: string): Promise<void> {
    return this.inTurn(async () => {
      const there = await this.server.get(id).catch(unlessGone); // nothing is done where that is not answered
      this.settle(id);
      const mine = this.canvases.read(id)?.layout;
      const name = mine && calledBy(`${mine.name.slice(0, 60)}, as drawn here`);
      if (there && mine && name && !this.write(newKey().slice(0, 12), { ...mine, name }, id)) return;
      if (there) this.lay(id, there);
      else this.know(id, undefined); // it was deleted: what was drawn here is what there is
      this.refuse(id, undefined);
      await this.exchange();
    });
  }

  /** Have what was drawn here be what there is everywhere. */
  keepMine(id: string): Promise<void> {
    return this.inTurn(async () => {
      await this.read();
      const head = this.heads.get(id);
      this.know(id, head && { version: head.version, changedAt: -1 });
      this.refuse(id, undefined);
      await this.exchange();
    });
  }

  private begin(): () => void {
    void this.sync();
    const look = () => void (document.hidden || this.sync());
    const timer = setInterval(look, LOOK_MS);
    const end = reach.whenBack(look);
    document.addEventListener('visibilitychange', look);
    return () => {
      clearInterval(timer);
      end();
      document.removeEventListener('visibilitychange', look);
    };
  }

  /** Do one thing after the other, in all windows of this browser. */
  private inTurn(work: () => Promise<void>): Promise<void> {
    const whole = async () => {
      if (whose() && whose() !== this.user) {
        this.waiting = undefined; // another person has signed in
        return;
      }
      try {
        await work();
      } catch (problem) {
        if (!(problem instanceof Problem)) throw problem;
        this.show({ isRead: true, isAway: isPassing(problem) });
      }
    };
    const locks = (globalThis.navigator as Partial<Navigator> | undefined)?.locks; // none where the page came over plain HTTP
    const done = this.last.then(async () => {
      await (locks ? locks.request(this.place, whole) : whole());
    });
    this.last = done.catch(() => undefined);
    return done;
  }

  private async exchange(): Promise<void> {
    await this.read();
    for (const [id, known] of Object.entries(this.known())) {
      const head = this.heads.get(id);
      if (known.isGone) {
        if (head) await this.server.remove(id).catch(unlessGone);
        this.heads = new Map([...this.heads].filter(([each]) => each !== id));
        this.know(id, undefined);
      } else if (!head && this.isSent(id)) {
        this.canvases.remove(id);
        this.know(id, undefined);
        this.tell(id);
      } else if (!head) {
        this.know(id, undefined); // it was deleted elsewhere and drawn on here: it is sent as another one
      } else if (head.version !== known.version && this.isSent(id)) await this.take(id);
    }
    for (const id of this.canvases.ids()) {
      if (this.isBroken(id) && this.heads.has(id)) await this.take(id, true);
      await this.send(id);
    }
    this.show({ isRead: true, isAway: false });
  }

  private async read(): Promise<void> {
    this.heads = new Map((await this.server.list()).map((each) => [each.id, each]));
  }

  private isBroken(id: string): boolean {
    return (this.canvases.read(id)?.lost ?? 'nothing') !== 'nothing';
  }

  /** Whether what is here is what was sent, or came. */
  private isSent(id: string): boolean {
    this.settle(id);
    return this.known()[id]?.changedAt === this.canvases.read(id)?.layout.changedAt;
  }

  private async send(id: string): Promise<void> {
    if (this.isSent(id)) return this.refuse(id, undefined);
    const [kept, known, before] = [this.canvases.read(id), this.known()[id], this.shown.refused.get(id)];
    if (!kept || this.isBroken(id) || (!known && isBlank(kept.layout))) return;
    const { changedAt } = kept.layout;
    if (before?.isConflict || before?.changedAt === changedAt) return;
    try {
      const head = await this.server.put(id, { ...bodyOf(kept.layout), ...(known && { version: known.version }) });
      this.heads = new Map([...this.heads, [id, head]]);
      this.know(id, { version: head.version, changedAt });
      this.refuse(id, undefined);
    } catch (problem) {
      if (!(problem instanceof Problem) || isPassing(problem) || problem.status === 401) throw problem;
      if (problem.status === GONE && known) this.know(id, undefined);
      if (problem.status === GONE && known) return this.send(id);
      if (problem.status === CONFLICT && this.known()[id]?.version !== known?.version) return this.send(id); // by another window of this browser
      this.refuse(id, { problem, isConflict: problem.status === CONFLICT, changedAt });
    }
  }

  /** Have one here as it is there; what was drawn here since is not lost by it, unless that is meant. */
  private async take(id: string, isMeant = false): Promise<void> {
    const there = await this.server.get(id).catch(unlessGone);
    if (!there) this.heads = new Map([...this.heads].filter(([each]) => each !== id));
    if (!there) return this.show({});
    if (isMeant || !this.canvases.has(id) || this.isSent(id)) this.lay(id, there);
  }

  private lay(id: string, there: Schemas['CanvasView']): void {
    this.settle(id);
    const here = this.canvases.read(id)?.layout;
    const changedAt = Math.max(Date.parse(there.changedAt), (here?.changedAt ?? 0) + 1);
    const layout: Layout = { ...fromServer(there, changedAt), ...(here?.view && { view: here.view }) };
    if (!this.write(id, layout)) return;
    this.know(id, { version: there.version, changedAt });
    this.tell(id);
  }

  /** Keep one here; where the browser has no room for it, that is said of it, or of the one that it was made of. */
  private write(id: string, layout: Layout, of = id): boolean {
    try {
      this.canvases.write(id, layout);
      return true;
    } catch {
      const problem = new Problem(0, 'NO_ROOM', 'This browser has no room left for it: delete a canvas that you do not need any more');
      this.refuse(of, { problem, isConflict: this.shown.refused.get(of)?.isConflict ?? false, changedAt: layout.changedAt });
      return false;
    }
  }

  private known(): Record<string, Known> {
    try {
      return JSON.parse(this.kept.getItem(this.place) ?? '{}') as Record<string, Known>;
    } catch {
      return {};
    }
  }

  private know(id: string, what: Known | undefined): void {
    const { [id]: _, ...others } = this.known();
    try {
      this.kept.setItem(this.place, JSON.stringify(what ? { ...others, [id]: what } : others));
    } catch {
      // there is no room: the server is asked as if nothing were known, and writes nothing over
    }
  }

  private refuse(id: string, what: Refused | undefined): void {
    if (!what && !this.shown.refused.has(id)) return;
    const refused = new Map(this.shown.refused);
    if (what) refused.set(id, what);
    else refused.delete(id);
    this.show({ refused });
  }

  private tell(id: string): void {
    for (const told of [...this.hearing]) told(id);
    this.show({});
  }

  private show(what: Partial<Standing>): void {
    this.shown = { ...this.shown, ...what };
    for (const told of [...this.watchers]) told();
  }
}

function listed({ id, name, nodeCount, sessionIds, changedAt }: Head): Listed {
  return { id, name, nodes: nodeCount, sessionIds, changedAt: Date.parse(changedAt) };
}

const all = new Map<string, Shared>();

/** A person's canvases, the same each time. */
export function sharedOf(user: string): Shared {
  const there = all.get(user) ?? new Shared(user);
  all.set(user, there);
  return there;
}

export function useShared(shared: Shared): Standing {
  return useSyncExternalStore(shared.watch, () => shared.shown);
}
