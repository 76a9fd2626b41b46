/** Where new nodes are put, and what they are connected to there. */
import type { Board, BoardNode } from './board';
import type { Joints } from './joints';
import { type Box, edgeOf, freePlace, type Place } from './layout';
import { FILM, sizeOf } from './nodes';

const GAP_PX = 80;

export class Placing {
  constructor(
    private readonly board: Board,
    private readonly joints: Joints,
  ) {}

  /** Put a node around a place, or below it where that is taken; returns its id. */
  around({ x, y }: Place, plugin: string): string {
    const { width, height } = sizeOf(plugin);
    return this.at({ x: x - width / 2, y: y - height / 2 }, plugin);
  }

  /** Put a node below all others. */
  below(plugin: string): string {
    return this.at({ x: 0, y: Math.max(0, ...this.board.seen.nodes.map(boxOf).map(({ y, height }) => y + height + GAP_PX)) }, plugin);
  }

  /** Put a node beside one that it fits to, and connect them; undefined where it does not, or has no room there. */
  beside(other: BoardNode, plugin: string): string | undefined {
    const isAfter = plugin === FILM;
    const joint = isAfter ? this.joints.between(other.data.plugin, plugin) : this.joints.between(plugin, other.data.plugin);
    const isTaken = !isAfter && !joint?.multiple && this.board.seen.edges.some(({ target, targetHandle }) => target === other.id && targetHandle === joint?.targetHandle);
    if (!joint || isTaken) return undefined;
    const { x, y, width } = boxOf(other);
    const made = this.at({ x: isAfter ? x + width + GAP_PX : x - sizeOf(plugin).width - GAP_PX, y }, plugin);
    const [source, target] = isAfter ? [other.id, made] : [made, other.id];
    this.board.put({ edges: [...this.board.seen.edges, edgeOf({ ...joint, source, target })] });
    return made;
  }

  /** Put words and a style there, and an animation that they go into; returns the words' id. */
  begin({ x, y }: Place): string {
    const [left, top] = [x - 400, y - 300];
    const [words, style] = ['prompt', 'style'].map((plugin) => this.at({ x: left, y: top }, plugin, 'begin'));
    const film = this.at({ x: left + 380, y: top }, FILM, 'begin');
    if (words) this.joints.make({ source: words, sourceHandle: 'text', target: film, targetHandle: 'prompt' }, 'begin');
    if (style) this.joints.make({ source: style, sourceHandle: 'style', target: film, targetHandle: 'style' }, 'begin');
    return words ?? film;
  }

  private at({ x, y }: Place, plugin: string, step?: string): string {
    const size = sizeOf(plugin);
    const free = freePlace({ x: Math.round(x), y: Math.round(y), ...size }, this.board.seen.nodes.map(boxOf));
    return this.board.add({ plugin }, free, size.width, step);
  }
}

function boxOf({ position, measured, width, data }: BoardNode): Box {
  const usual = sizeOf(data.plugin);
  return { ...position, width: measured?.width ?? width ?? usual.width, height: Math.max(measured?.height ?? 0, usual.height) };
}
