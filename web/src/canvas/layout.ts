/**
 * What is kept of a canvas: where its nodes are, what they hold, and how they are connected.
 *
 * Sessions are the server's: a node has the id of one at most. What is read was written by another version of this page, or
 * by nobody, so every part of it is looked at before it is used.
 */
import type { NodeData } from '../../node/src/registry';
import type { Edge } from '../../node/src/values';

export interface Place {
  x: number;
  y: number;
}

export interface KeptNode {
  id: string;
  position: Place;
  width?: number | undefined;
  data: NodeData;
}

/** What is seen of a canvas: moved by so many pixels, and how large. */
export interface View extends Place {
  zoom: number;
}

export interface Layout {
  name: string;
  /** When it was changed, in milliseconds of the epoch. */
  changedAt: number;
  nodes: readonly KeptNode[];
  edges: readonly Edge[];
  view?: View | undefined;
}

/** How much of what was kept could not be read. */
export type Lost = 'nothing' | 'some' | 'all';

export interface AssetData extends NodeData {
  asset?: { id: string; name: string; mediaType: string } | undefined;
}

export const LONGEST_NAME = 80;
export const UNNAMED = 'Canvas';
const VERSION = 1;
const LEAST_ZOOM = 0.1;
const MOST_ZOOM = 4;

/** What a canvas is called that somebody called so. */
export function calledBy(words: string): string {
  return words.trim().slice(0, LONGEST_NAME) || UNNAMED;
}

export function empty(name = UNNAMED): Layout {
  return { name, changedAt: 0, nodes: [], edges: [] };
}

export function edgeOf(joint: Omit<Edge, 'id'>): Edge {
  const { source, target, sourceHandle = null, targetHandle = null } = joint;
  return { id: `${source}.${sourceHandle}-${target}.${targetHandle}`, source, sourceHandle, target, targetHandle };
}

export function written({ name, changedAt, nodes, edges, view }: Layout): string {
  return JSON.stringify({
    version: VERSION,
    name,
    changedAt,
    view,
    nodes: nodes.map(({ id, position, width, data }) => ({ id, position, width, data })),
    edges: edges.map(({ source, sourceHandle, target, targetHandle }) => ({ source, sourceHandle, target, targetHandle })),
  });
}

/** Whether there is nothing of anybody's on it: as it was when it was begun. */
export function isBlank({ name, nodes }: Layout): boolean {
  return nodes.length === 0 && /^Canvas( \d+)?$/.test(name);
}

/** What of it is the same in every browser, as the server takes it. */
export function bodyOf({ name, nodes, edges, view }: Layout) {
  return {
    name,
    nodes: nodes.map(({ id, position, width, data }) => ({ id, position, ...(width === undefined ? {} : { width }), data })),
    edges: edges.map(({ source, sourceHandle, target, targetHandle }) => ({ source, sourceHandle, target, targetHandle })),
    ...(view ? { view } : {}),
  };
}

/** Read what a server keeps, as carefully as what this browser does. */
export function fromServer(kept: object, changedAt: number): Layout {
  return read(JSON.stringify({ ...kept, version: VERSION, changedAt })).layout;
}

/** Read what was written: what is not as it should be is left out. */
export function read(text: string): { layout: Layout; lost: Lost } {
  const kept = partsOf(parsed(text));
  if (kept?.version !== VERSION || !Array.isArray(kept.nodes)) return { layout: empty(), lost: 'all' };
  const given = kept.nodes as unknown[];
  const nodes = new Map<string, KeptNode>();
  for (const each of given) {
    const node = nodeOf(each);
    if (node) nodes.set(node.id, node);
  }
  const joints = Array.isArray(kept.edges) ? (kept.edges as unknown[]) : [];
  const edges = new Map<string, Edge>();
  for (const each of joints) {
    const edge = jointOf(each);
    if (edge && nodes.has(edge.source) && nodes.has(edge.target) && edge.source !== edge.target) edges.set(edge.id, edge);
  }
  const layout = {
    name: calledBy(words(kept.name) ?? ''),
    changedAt: number(kept.changedAt) ?? 0,
    nodes: [...nodes.values()],
    edges: [...edges.values()],
    view: viewOf(kept.view),
  };
  const isWhole = nodes.size === given.length && edges.size === joints.length;
  return { layout, lost: isWhole ? 'nothing' : nodes.size > 0 ? 'some' : 'all' };
}

/** Nodes in the order of their edges, and beside each other as they lie: from above, then from the left. */
export function ordered<N extends KeptNode>(nodes: readonly N[], edges: readonly Edge[]): N[] {
  const left = [...nodes].sort((one, other) => one.position.y - other.position.y || one.position.x - other.position.x);
  const done = new Set<string>();
  const found: N[] = [];
  while (left.length > 0) {
    const waits = ({ id }: N) => edges.some(({ source, target }) => target === id && !done.has(source) && left.some((each) => each.id === source));
    const at = Math.max(0, left.findIndex((each) => !waits(each)));
    for (const node of left.splice(at, 1)) {
      done.add(node.id);
      found.push(node);
    }
  }
  return found;
}

export interface Box extends Place {
  width: number;
  height: number;
}

const GAP_PX = 40;

/** The place nearest below where something is wanted at which it covers nothing. */
export function freePlace(wanted: Box, taken: readonly Box[]): Place {
  let { y } = wanted;
  const { x } = wanted;
  for (;;) {
    const inTheWay = taken.find(
      (each) =>
        each.x < x + wanted.width + GAP_PX && x < each.x + each.width + GAP_PX && each.y < y + wanted.height + GAP_PX && y < each.y + each.height + GAP_PX,
    );
    if (!inTheWay) return { x, y };
    y = inTheWay.y + inTheWay.height + GAP_PX;
  }
}

type Parts = Record<string, unknown>;

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function partsOf(value: unknown): Parts | undefined {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Parts) : undefined;
}

function words(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

function number(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isFinite(value) ? value : undefined;
}

function nodeOf(value: unknown): KeptNode | undefined {
  const { id, position, width, data } = partsOf(value) ?? {};
  const place = placeOf(position);
  const held = partsOf(data);
  if (typeof id !== 'string' || !id || !place || typeof held?.plugin !== 'string') return undefined;
  const wide = number(width);
  const read = READ.get(held.plugin);
  return { id, position: place, ...(wide !== undefined && wide > 0 ? { width: wide } : {}), data: { ...(read ? read(held) : held), plugin: held.plugin } };
}

function placeOf(value: unknown): Place | undefined {
  const { x, y } = partsOf(value) ?? {};
  const [across, down] = [number(x), number(y)];
  return across === undefined || down === undefined ? undefined : { x: across, y: down };
}

function viewOf(value: unknown): View | undefined {
  const place = placeOf(value);
  const zoom = number(partsOf(value)?.zoom);
  return place && zoom !== undefined && zoom >= LEAST_ZOOM && zoom <= MOST_ZOOM ? { ...place, zoom } : undefined;
}

function jointOf(value: unknown): Edge | undefined {
  const { source, sourceHandle, target, targetHandle } = partsOf(value) ?? {};
  if (typeof source !== 'string' || typeof target !== 'string' || typeof sourceHandle !== 'string' || typeof targetHandle !== 'string') return undefined;
  return edgeOf({ source, sourceHandle, target, targetHandle });
}

/** What the nodes that this page knows hold; of others everything is kept. */
const READ: ReadonlyMap<string, (held: Parts) => Parts> = new Map([
  [
    'animation-generator',
    ({ sessionId, prompt, settings, collapsed, sent }) => ({
      sessionId: words(sessionId),
      prompt: words(prompt),
      settings: Object.fromEntries(Object.entries(partsOf(settings) ?? {}).filter(([, each]) => typeof each === 'string' || number(each) !== undefined)),
      collapsed: collapsed === true,
      sent: sentOf(sent),
    }),
  ],
  ['prompt', ({ text }) => ({ text: words(text) })],
  ['style', ({ text }) => ({ text: words(text) })],
  [
    'asset',
    ({ asset }) => {
      const { id, name, mediaType } = partsOf(asset) ?? {};
      return typeof id === 'string' && typeof name === 'string' && typeof mediaType === 'string' ? { asset: { id, name, mediaType } } : {};
    },
  ],
] as [string, (held: Parts) => Parts][]);

function sentOf(value: unknown): unknown {
  const { asked, key, body } = partsOf(value) ?? {};
  return typeof asked === 'string' && typeof key === 'string' && typeof partsOf(body)?.prompt === 'string' ? { asked, key, body } : undefined;
}
