/** What goes through edges, and where it may go. */
import type { HandleType, PluginHandle, PluginHandles } from './plugin';

/** What a node gives at one of its handles: words, or a file by the address that shows it, empty until there is one. */
export type Value =
  | { type: 'text'; text: string }
  | { type: 'image' | 'video' | 'audio'; name: string; url: string; poster?: string };

export interface Edge {
  id: string;
  source: string;
  target: string;
  sourceHandle?: string | null;
  targetHandle?: string | null;
}

const MEDIA: readonly HandleType[] = ['image', 'video', 'audio', 'media'];

/** Whether what comes out of one kind of handle may go into another. */
export function fits(from: HandleType, into: HandleType): boolean {
  return from === into || from === 'any' || into === 'any' || (into === 'media' && MEDIA.includes(from));
}

export function handleOf(handles: readonly PluginHandle[], id: string | null | undefined): PluginHandle | undefined {
  return handles.find((each) => each.id === id);
}

/** Whether an edge may be drawn: from an output into an input that takes it, and in no circle. */
export function mayConnect(edge: Omit<Edge, 'id'>, edges: readonly Edge[], handles: (nodeId: string) => PluginHandles | null | undefined): boolean {
  const from = handleOf(handles(edge.source)?.outputs ?? [], edge.sourceHandle);
  const into = handleOf(handles(edge.target)?.inputs ?? [], edge.targetHandle);
  return from !== undefined && into !== undefined && fits(from.type, into.type) && !leads(edge.target, edge.source, edges);
}

/** The edges with a new one; an input that takes only one thing lets go of what it had. */
export function connected<E extends Edge>(edges: readonly E[], added: E, into: PluginHandle | undefined): E[] {
  const stay = edges.filter(
    (each) =>
      each.id !== added.id &&
      (into?.multiple || each.target !== added.target || each.targetHandle !== added.targetHandle) &&
      !(each.source === added.source && each.sourceHandle === added.sourceHandle && each.target === added.target && each.targetHandle === added.targetHandle),
  );
  return [...stay, added];
}

/** Whether edges lead from one node to another. */
function leads(from: string, to: string, edges: readonly Edge[]): boolean {
  const seen = new Set<string>();
  const next = [from];
  for (let at = next.pop(); at !== undefined; at = next.pop()) {
    if (at === to) return true;
    if (seen.has(at)) continue;
    seen.add(at);
    for (const { source, target } of edges) if (source === at) next.push(target);
  }
  return false;
}
