/** Where new nodes are put, and what they are connected to there. */
import type { NodeData } from '../../node/src/registry';
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
  around({ x, y }: Place, data: NodeData): string {
    const { width, height } = sizeOf(data.plugin);
    return this.at({ x: x - width / 2, y: y - height / 2 }, data);
  }

  /** Put a node below all others. */
  below(data: NodeData): string {
    return this.at({ x: 0, y: Math.max(0, ...this.boxes.map(({ y, height }) => y + height + GAP_PX)) }, data);
  }

  /** Put a node to the right of all others, which may not be as high yet as they will be; where there are none, around a place. */
  after(place: Place, data: NodeData): string {
    const { boxes } = this;
    if (boxes.length === 0) return this.around(place, data);
    return this.at({ x: Math.max(...boxes.map(({ x, width }) => x + width)) + GAP_PX, y: Math.min(...boxes.map(({ y }) => y)) }, data);
  }

  /** Put a node beside one that it fits to, and connect them; undefined where it does not, or has no room there. */
  beside(other: BoardNode, plugin: string): string | undefined {
    const isAfter = plugin === FILM;
    const joint = isAfter ? this.joints.between(other.data.plugin, plugin) : this.joints.between(plugin, other.data.plugin);
    const isTaken = !isAfter && !joint?.multiple && this.board.seen.edges.some(({ target, targetHandle }) => target === other.id && targetHandle === joint?.targetHandle);
    if (!joint || isTaken) return undefined;
    const { x, y, width } = boxOf(other);
    const made = this.at({ x: isAfter ? x + width + GAP_PX : x - sizeOf(plugin).width - GAP_PX, y }, { plugin });
    const [source, target] = isAfter ? [other.id, made] : [made, other.id];
    this.board.put({ edges: [...this.board.seen.edges, edgeOf({ ...joint, source, target })] });
    return made;
  }

  /** Put words and a style there, and an animation that they go into; returns the words' id. */
  begin({ x, y }: Place): string {
    const [left, top] = [x - 400, y - 300];
    const [words, style] = ['prompt', 'style'].map((plugin) => this.at({ x: left, y: top }, { plugin }, 'begin'));
    const film = this.at({ x: left + 380, y: top }, { plugin: FILM }, 'begin');
    if (words) this.joints.make({ source: words, sourceHandle: 'text', target: film, targetHandle: 'prompt' }, 'begin');
    if (style) this.joints.make({ source: style, sourceHandle: 'style', target: film, targetHandle: 'style' }, 'begin');
    return words ?? film;
  }

  private at({ x, y }: Place, data: NodeData, step?: string): string {
    const size = sizeOf(data.plugin);
    const free = freePlace({ x: Math.round(x), y: Math.round(y), ...size }, this.boxes);
    return this.board.add(data, free, size.width, step);
  }

  private get boxes(): Box[] {
    return this.board.seen.nodes.map(boxOf);
  }
}

function boxOf({ position, measured, width, data }: BoardNode): Box {
  const usual = sizeOf(data.plugin);
  return { ...position, width: measured?.width ?? width ?? usual.width, height: Math.max(measured?.height ?? 0, usual.height) };
}
