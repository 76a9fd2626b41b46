/**
 * A canvas as it is worked on: its nodes and edges, what can be undone of it, and that it is kept.
 *
 * It is there whether or not it is shown, so that an upload that ends later still finds its node. Undoing puts back where
 * nodes were and which there were; what a node holds by then stays, since a session that was begun is not unbegun.
 */
import type { Edge as FlowEdge, Node } from '@xyflow/react';
import { clock } from '../../node/src/clock';
import { paced } from '../../node/src/pace';
import type { NodeData } from '../../node/src/registry';
import { newKey } from '../api/client';
import type { Canvases } from './canvases';
import { calledBy, empty, type KeptNode, type Lost, type Place, type View } from './layout';

export type BoardNode = Node<NodeData, 'plugin'>;

/** What is seen of a board; another object whenever something of it is another one. */
export interface Seen {
  name: string;
  nodes: BoardNode[];
  edges: FlowEdge[];
  view: View | undefined;
  lost: Lost;
  /** Whether the browser had no room for the last change. */
  isUnkept: boolean;
  canUndo: boolean;
  canRedo: boolean;
}

interface Past {
  nodes: readonly KeptNode[];
  edges: readonly FlowEdge[];
}

const KEEP_MS = 150;
const MOST_UNDONE = 100;

export class Board {
  seen: Seen;
  private before: Past[] = [];
  private after: Past[] = [];
  private marked: string | undefined;
  private isWritten = true;
  private isGone = false;
  private changedAt = 0;
  private readonly watchers = new Set<() => void>();
  private readonly keepSoon = paced(() => this.keep(), KEEP_MS);

  constructor(
    readonly id: string,
    private readonly canvases: Canvases,
  ) {
    this.seen = this.found();
  }

  watch = (told: () => void): (() => void) => {
    this.watchers.add(told);
    return () => this.watchers.delete(told);
  };

  /** Take over what another window made of it. */
  reread(): void {
    const found = this.canvases.read(this.id);
    if (!found || found.layout.changedAt <= this.changedAt) return;
    const selected = new Set(this.seen.nodes.flatMap(({ id, selected }) => (selected ? [id] : [])));
    const { view } = this.seen;
    this.seen = this.found();
    [this.before, this.after, this.marked] = [[], [], undefined];
    this.show({ view, nodes: this.seen.nodes.map((each) => (selected.has(each.id) ? { ...each, selected: true } : each)) });
  }

  /** Keep what is not kept yet, at once. */
  keep(): void {
    if (this.isWritten || this.isGone) return;
    this.isWritten = true;
    const { name, nodes, edges, view, isUnkept } = this.seen;
    try {
      this.canvases.write(this.id, { name, changedAt: this.changedAt, nodes, edges, view });
      if (isUnkept) this.show({ isUnkept: false });
    } catch {
      this.isWritten = false;
      if (!isUnkept) this.show({ isUnkept: true });
    }
  }

  /** Remember how it is, to be able to go back there; what is done again and again under one name is one step. */
  mark(name?: string): void {
    if (name !== undefined && name === this.marked) return;
    this.marked = name;
    this.before = [...this.before, this.now()].slice(-MOST_UNDONE);
    this.after = [];
    this.show({});
  }

  /** Show nodes and edges as they were changed. */
  put(what: Partial<Pick<Seen, 'nodes' | 'edges'>>): void {
    this.changedAt = Math.max(clock.now(), this.changedAt + 1);
    this.show(what);
    this.unwritten();
  }

  /** Show what stands only here: which nodes are chosen, and how large they came out. */
  show(what: Partial<Seen>): void {
    this.seen = { ...this.seen, ...what, canUndo: this.before.length > 0, canRedo: this.after.length > 0 };
    for (const told of [...this.watchers]) told();
  }

  /** Remember what is seen of it, which is no change of it. */
  look(view: View): void {
    this.seen = { ...this.seen, view };
    this.unwritten();
  }

  /** Keep nothing of it any more. */
  leave(): void {
    this.isGone = true;
  }

  /** Change what a node holds, also of one that was removed and may come back. */
  change = (id: string, what: Partial<NodeData>): void => {
    const changed = <N extends KeptNode>(each: N): N => (each.id === id ? { ...each, data: { ...each.data, ...what } as NodeData } : each);
    for (const past of [...this.before, ...this.after]) past.nodes = past.nodes.map(changed);
    if (this.seen.nodes.some((each) => each.id === id)) this.put({ nodes: this.seen.nodes.map(changed) });
  };

  /** Whether a node can be had back by undoing, or doing again. */
  remembers(id: string | undefined): boolean {
    return [...this.before, ...this.after].some(({ nodes }) => nodes.some((each) => each.id === id));
  }

  /** Put a node there, and choose it; returns its id. */
  add(data: NodeData, position: Place, width: number, step?: string): string {
    this.mark(step);
    const id = newKey().slice(0, 8);
    this.put({ nodes: [...this.seen.nodes.map(unselected), { ...drawn({ id, position, width, data }), selected: true }], edges: this.seen.edges.map(unselected) });
    return id;
  }

  /** Choose one node, and no others. */
  choose(id: string): void {
    this.show({ nodes: this.seen.nodes.map((each) => (each.id === id ? { ...each, selected: true } : unselected(each))), edges: this.seen.edges.map(unselected) });
  }

  /** Take away nodes, with their edges, and edges. */
  remove(nodeIds: readonly string[], edgeIds: readonly string[] = []): void {
    if (nodeIds.length + edgeIds.length === 0) return;
    this.mark();
    const { nodes, edges } = this.seen;
    this.put({
      nodes: nodes.filter(({ id }) => !nodeIds.includes(id)),
      edges: edges.filter(({ id, source, target }) => !edgeIds.includes(id) && !nodeIds.includes(source) && !nodeIds.includes(target)),
    });
  }

  join(edges: FlowEdge[], step?: string): void {
    this.mark(step);
    this.put({ edges });
  }

  undo(): boolean {
    return this.go(this.before, this.after);
  }

  redo(): boolean {
    return this.go(this.after, this.before);
  }

  rename(name: string): void {
    this.seen = { ...this.seen, name: calledBy(name) };
    this.put({});
    this.keep();
  }

  private go(from: Past[], into: Past[]): boolean {
    const past = from.pop();
    if (!past) return false;
    into.push(this.now());
    this.marked = undefined;
    const there = new Map(this.seen.nodes.map((each) => [each.id, each]));
    const nodes = past.nodes.map((each): BoardNode => {
      const now = there.get(each.id);
      return now ? { ...now, position: each.position } : drawn(each);
    });
    this.put({ nodes, edges: past.edges.map(unselected) });
    return true;
  }

  private now(): Past {
    return { nodes: this.seen.nodes.map(({ id, position, width, data }) => ({ id, position, width, data })), edges: this.seen.edges };
  }

  private found(): Seen {
    const { layout, lost } = this.canvases.read(this.id) ?? { layout: empty(), lost: 'nothing' as const };
    this.changedAt = layout.changedAt;
    return { name: layout.name, nodes: layout.nodes.map(drawn), edges: [...layout.edges], view: layout.view, lost, isUnkept: false, canUndo: false, canRedo: false };
  }

  private unwritten(): void {
    this.isWritten = false;
    this.keepSoon();
  }
}

function drawn({ id, position, width, data }: KeptNode): BoardNode {
  return { id, type: 'plugin', position, ...(width ? { width } : {}), data };
}

function unselected<T extends { selected?: boolean }>(each: T): T {
  return each.selected ? { ...each, selected: false } : each;
}
