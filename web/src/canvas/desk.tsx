/** What a person's canvases have in common, whether or not one is looked at: the server, and what is open. */
import { createContext, useContext, useEffect, useMemo, useSyncExternalStore } from 'react';
import { navigate } from 'wouter/use-browser-location';
import { titleOf } from '../../node/src/animation';
import { useAround } from '../../node/src/context';
import { Koda } from '../../node/src/koda';
import type { AnimationData } from '../../node/src/request';
import { tellProblem } from '../api/client';
import { deletions } from '../api/deleted';
import { stream } from '../api/stream';
import { uploads } from '../api/uploads';
import { Board, type BoardNode } from './board';
import type { Canvases } from './canvases';
import { Files } from './files';
import type { Joints } from './joints';
import type { AssetData } from './layout';
import { type Shared, sharedOf } from './shared';

export interface Open {
  board: Board;
  files: Files;
}

export class Desk {
  readonly koda = new Koda({ stream, hear: tellProblem, studio: (id) => `/s/${id}`, open: (id) => navigate(`/s/${id}`) });
  readonly shared: Shared;
  private readonly canvases: Canvases;
  private readonly opened = new Map<string, Open>();

  constructor(user: string) {
    this.shared = sharedOf(user);
    this.canvases = this.shared.canvases;
    this.canvases.watch((id) => this.opened.get(id)?.board.reread());
    this.shared.settle = (id) => this.opened.get(id)?.board.keep();
    this.shared.hear((id) => (this.canvases.has(id) ? this.opened.get(id)?.board.reread() : this.close(id)));
    deletions.hear((id) => this.koda.sessions.reread(id));
  }

  /** A canvas, the same one each time; undefined where nothing is kept of it. */
  open(id: string): Open | undefined {
    const there = this.opened.get(id);
    if (there ?? !this.canvases.has(id)) return there;
    const board = new Board(id, this.canvases);
    if (board.seen.lost !== 'nothing') this.shared.doubt(id);
    const made = { board, files: new Files(board, uploads) };
    this.opened.set(id, made);
    return made;
  }

  rename(id: string, name: string): void {
    const there = this.opened.get(id);
    if (there) there.board.rename(name);
    else void this.shared.rename(id, name);
  }

  remove(id: string): void {
    this.close(id);
    this.shared.remove(id);
  }

  private close(id: string): void {
    const there = this.opened.get(id);
    there?.board.leave();
    there?.files.close();
    this.opened.delete(id);
  }
}

const desks = new Map<string, Desk>();

export function deskOf(user: string): Desk {
  const there = desks.get(user) ?? new Desk(user);
  desks.set(user, there);
  return there;
}

interface Shown extends Open {
  joints: Joints;
  /** What each node is called; no two are called the same. */
  names: ReadonlyMap<string, string>;
  /** Ask how a node is to be connected. */
  connect: (nodeId: string) => void;
  /** Take nodes away, with their edges, and edges. */
  remove: (nodeIds: readonly string[], edgeIds?: readonly string[]) => void;
  /** Add an animation that is made with what a node gives. */
  goOn: (nodeId: string) => void;
}

const Context = createContext<Shown | undefined>(undefined);
export const CanvasProvider = Context.Provider;

export function useCanvas(): Shown {
  const found = useContext(Context);
  if (!found) throw new Error('there is no canvas around this');
  return found;
}

/** What is seen of a board. */
export function useBoard(board: Board) {
  return useSyncExternalStore(board.watch, () => board.seen);
}

/** Keep what was changed of a board, also where the page is left at once. */
export function useKeeping(board: Board) {
  useEffect(() => {
    const keep = () => board.keep();
    window.addEventListener('pagehide', keep);
    return () => {
      window.removeEventListener('pagehide', keep);
      keep();
    };
  }, [board]);
}

const LONGEST_WORDS = 32;

/** What each node is called, followed for as long as they are shown. */
export function useNames(nodes: readonly BoardNode[]): ReadonlyMap<string, string> {
  const { koda, registry } = useAround();
  const ids = [...new Set(nodes.flatMap(({ data }) => registry.get(data.plugin)?.sessionId?.(data) ?? []))].sort().join();
  const watch = useMemo(
    () => (told: () => void) => {
      const ends = ids ? ids.split(',').map((id) => koda.sessions.watch(id, told)) : [];
      return () => ends.forEach((end) => end());
    },
    [koda, ids],
  );
  const told = useSyncExternalStore(watch, () => JSON.stringify(nodes.map((each) => [each.id, nameOf(each, koda)])));
  return useMemo(() => distinct(JSON.parse(told) as [string, string][]), [told]);
}

function nameOf({ data }: BoardNode, koda: Koda): string {
  if (data.plugin === 'animation-generator') return titleOf(koda.sessions.seen((data as AnimationData).sessionId).session);
  if (data.plugin === 'prompt') return named('Prompt', data.text);
  if (data.plugin === 'style') return named('Style', data.text);
  if (data.plugin === 'asset') return (data as AssetData).asset?.name ?? 'File';
  return `Unknown: ${data.plugin}`;
}

function named(kind: string, words: unknown): string {
  const line = typeof words === 'string' ? words.trim().replaceAll(/\s+/g, ' ') : '';
  return line ? `${kind}: ${line.length > LONGEST_WORDS ? `${line.slice(0, LONGEST_WORDS - 1)}…` : line}` : kind;
}

function distinct(names: readonly [string, string][]): ReadonlyMap<string, string> {
  const taken = new Set<string>();
  return new Map(
    names.map(([id, name]) => {
      let found = name;
      for (let number = 2; taken.has(found); number += 1) found = `${name} ${number}`;
      taken.add(found);
      return [id, found];
    }),
  );
}
