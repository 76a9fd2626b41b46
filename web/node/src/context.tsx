/** What nodes find around them: the server, the registry, and where what they are given comes from. */
import { createContext, type ReactNode, useCallback, useContext, useMemo, useState, useSyncExternalStore } from 'react';
import { Koda } from './koda';
import { Makings } from './makings';
import { type Entry, type NodeData, type Registry, registry } from './registry';
import type { Seen } from './sessions';
import { type Edge, handleOf, type Value } from './values';

interface Around {
  koda: Koda;
  makings: Makings;
  registry: Registry;
  change: ((nodeId: string, what: Partial<NodeData>) => void) | undefined;
}

interface Props {
  koda: Koda;
  /** Where it is not the page's own. */
  registry?: Registry;
  /** Changes what is kept of a node; left out, React Flow does, as long as the node is drawn. */
  change?: Around['change'];
  /** What the canvas is called among those of one `koda`: what is begun on it goes on while all of it is not drawn. */
  canvas?: string;
  children: ReactNode;
}

const Context = createContext<Around | undefined>(undefined);

/** Give the nodes of a canvas their server, their registry, and what keeps them. */
export function KodaProvider({ koda, registry: known = registry, change, canvas, children }: Props) {
  const [own] = useState(() => new Makings());
  const makings = canvas === undefined ? own : koda.makingsOn(canvas);
  const around = useMemo(() => ({ koda, makings, registry: known, change }), [koda, makings, known, change]);
  return <Context.Provider value={around}>{children}</Context.Provider>;
}

export function useAround(): Around {
  const found = useContext(Context);
  if (!found) throw new Error('there is no KodaProvider around this node');
  return found;
}

/** What is known of a session, which is followed for as long as it is shown, and a while longer. */
export function useSeen(sessionId: string | undefined): Seen {
  const { sessions } = useAround().koda;
  const watch = useCallback((told: () => void) => (sessionId === undefined ? () => {} : sessions.watch(sessionId, told)), [sessions, sessionId]);
  return useSyncExternalStore(watch, () => sessions.seen(sessionId));
}

/** What is being typed somewhere, which stays while its node is not drawn. */
export function useDraft(place: string): [string, (words: string | ((now: string) => string)) => void] {
  const { drafts } = useAround().koda;
  const [words, setWords] = useState(() => drafts.get(place) ?? '');
  const set = (to: string | ((now: string) => string)) => {
    const next = typeof to === 'string' ? to : to(drafts.get(place) ?? '');
    drafts.set(place, next);
    setWords(next);
  };
  return [words, set];
}

/** Something that comes into a node: through which of its handles, and from where. */
export interface Given {
  handle: string;
  source: string;
  sourceHandle: string;
  name: string;
  /** The plugin and the data of the node that it comes from. */
  plugin: string;
  data: NodeData;
  /** What it is; undefined while there is nothing yet. */
  value: Value | undefined;
}

type Joint = Omit<Edge, 'id'>;

interface Source {
  id: string;
  data: NodeData;
}

/** What comes into a node through its edges. */
export function useGiven(nodeId: string, edges: readonly Joint[], nodes: readonly Source[]): Given[] {
  const { koda, registry: known } = useAround();
  const sources = edges.flatMap((edge) => {
    const from = edge.target === nodeId ? nodes.find(({ id }) => id === edge.source) : undefined;
    const entry = from && known.get(from.data.plugin);
    return from && entry ? [{ edge, from, entry }] : [];
  });
  const followed = [...new Set(sources.flatMap(({ from, entry }) => entry.sessionId?.(from.data) ?? []))].join();
  const plugins = [...new Set(sources.map(({ from }) => from.data.plugin))].join();
  const watch = useCallback(
    (told: () => void) => {
      const ends = followed ? followed.split(',').map((id) => koda.sessions.watch(id, told)) : [];
      for (const id of plugins.split(',')) ends.push(known.get(id)?.watch?.(told) ?? (() => {}));
      return () => ends.forEach((end) => end());
    },
    [koda, known, followed, plugins],
  );
  // as text, which stays the same where nothing that matters here has changed
  const told = useSyncExternalStore(watch, () => JSON.stringify(sources.map((each) => givenBy(each, koda))));
  return useMemo(() => JSON.parse(told) as Given[], [told]);
}

function givenBy({ edge, from, entry }: { edge: Joint; from: Source; entry: Entry }, koda: Koda): Given {
  const sourceHandle = edge.sourceHandle ?? entry.plugin.handles?.outputs[0]?.id ?? '';
  const given = { handle: edge.targetHandle ?? '', source: from.id, sourceHandle };
  const name = handleOf(entry.plugin.handles?.outputs ?? [], sourceHandle)?.name ?? sourceHandle;
  return { ...given, plugin: entry.plugin.id, data: from.data, name: `${entry.plugin.name}: ${name}`, value: entry.output?.(sourceHandle, from.data, koda) };
}
