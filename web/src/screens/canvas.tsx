import { ChevronDown, Sparkles, X } from 'lucide-react';
import { useEffect, useMemo, useRef, useState, useSyncExternalStore } from 'react';
import { Link, Redirect } from 'wouter';
import { KodaProvider } from '../../node/src/context';
import '../../node/src/style.css';
import { canUndo, deletions } from '../api/deleted';
import { useLogin } from '../api/hooks';
import { filesOf } from '../api/uploads';
import { CanvasesList } from '../canvas/canvases-list';
import { Connections } from '../canvas/connections';
import { CanvasProvider, type Desk, deskOf, type Open, useBoard, useNames } from '../canvas/desk';
import { Flow } from '../canvas/flow';
import { Joints } from '../canvas/joints';
import { edgeOf, freePlace, type Lost, ordered, type Place } from '../canvas/layout';
import { List } from '../canvas/list';
import { known, SIZES, USUAL_SIZE } from '../canvas/nodes';
import '../canvas/style.css';
import { Button } from '../parts/button';
import { TYPED_INTO } from '../parts/keys';

const NARROW = '(max-width: 47.99rem)';
const GAP_PX = 80;
const LOST: Record<Lost, string> = {
  nothing: '',
  some: 'Part of what was kept of this canvas could not be read, and is left out.',
  all: 'What was kept of this canvas could not be read, so it is empty. Your animations are all there, among your sessions.',
};
const UNKEPT = 'This browser has no room left: the last changes of this canvas are gone once the page is closed.';

/** A canvas by its id; without one, that which was open last. */
export function Canvas({ id }: { id?: string | undefined }) {
  const { data: login } = useLogin();
  if (!login) return <p className="py-16 text-muted">One moment…</p>;
  const desk = deskOf(login.user);
  if (id === undefined) return <Redirect to={`/c/${desk.canvases.current()}`} replace />;
  const open = desk.open(id);
  if (!open) return <NoCanvas />;
  return (
    <KodaProvider koda={desk.koda} registry={known}>
      <Shown key={`${login.user} ${id}`} desk={desk} open={open} />
    </KodaProvider>
  );
}

function NoCanvas() {
  return (
    <div className="mx-auto max-w-md py-24 text-center">
      <title>No such canvas · koda</title>
      <h1 className="text-2xl font-semibold tracking-tight">There is no such canvas here.</h1>
      <p className="mt-3 text-muted">Canvases stay in the browser that they were made in. Their animations are among your sessions.</p>
      <Link href="/c" className="mt-6 inline-block text-accent underline underline-offset-4">
        To your canvas
      </Link>
    </div>
  );
}

function Shown({ desk, open: { board, files } }: { desk: Desk; open: Open }) {
  const { name, nodes, edges, lost, isUnkept, canUndo: mayUndo, canRedo } = useBoard(board);
  const names = useNames(nodes);
  const joints = useMemo(() => new Joints(board, known), [board]);
  const isNarrow = useMedia(NARROW);
  const [said, setSaid] = useState('');
  const [connecting, setConnecting] = useState<string>();
  const [isListing, setListing] = useState(false);
  const root = useRef<HTMLDivElement>(null);
  const middle = useRef<() => Place>(() => ({ x: 0, y: 0 }));
  useEffect(() => desk.canvases.opened(board.id), [desk, board]);

  const focusOn = (nodeId: string | undefined) =>
    // it is there once it was drawn, and the canvas measured it
    whenThere(root.current, nodeId === undefined ? '.canvas-tool' : `[data-id="${nodeId}"], [data-node="${nodeId}"]`);
  const place = (plugin: string, at: Place): string => {
    const size = SIZES[plugin] ?? USUAL_SIZE;
    const taken = board.seen.nodes.map(({ position, measured, width, data }) => {
      const usual = SIZES[data.plugin] ?? USUAL_SIZE;
      return { ...position, width: measured?.width ?? width ?? usual.width, height: measured?.height ?? usual.height };
    });
    return board.add({ plugin }, freePlace({ ...at, ...size }, taken), size.width);
  };
  const lowest = (): Place => ({ x: 0, y: Math.max(0, ...board.seen.nodes.map(({ position, measured }) => position.y + (measured?.height ?? 0) + GAP_PX)) });
  const somewhere = (plugin: string): Place => {
    if (isNarrow) return lowest();
    const { x, y } = middle.current();
    const { width, height } = SIZES[plugin] ?? USUAL_SIZE;
    return { x: Math.round(x - width / 2), y: Math.round(y - height / 2) };
  };
  const add = (plugin: string) => {
    const nodeId = place(plugin, somewhere(plugin));
    setSaid(`Added: ${known.get(plugin)?.plugin.name ?? plugin}`);
    focusOn(nodeId);
  };
  const remove = (nodeIds: readonly string[], edgeIds: readonly string[] = []) => {
    const [only] = nodeIds;
    const what = nodeIds.length === 0 ? (edgeIds.length === 1 ? 'a connection' : `${edgeIds.length} connections`) : nodeIds.length === 1 && only ? names.get(only) : `${nodeIds.length} nodes`;
    const all = ordered(nodes, edges);
    const at = all.findIndex(({ id }) => nodeIds.includes(id));
    const beside = [...all.slice(at + 1), ...all.slice(0, Math.max(0, at)).reverse()].find(({ id }) => !nodeIds.includes(id));
    board.remove(nodeIds, edgeIds);
    setSaid(`Removed: ${what}. To undo it, press Control and Z.`);
    focusOn(beside?.id);
  };
  const goOn = (nodeId: string) => {
    const from = board.seen.nodes.find(({ id }) => id === nodeId);
    if (!from) return;
    const { x, y } = from.position;
    const next = place('animation-generator', isNarrow ? lowest() : { x: x + (from.measured?.width ?? USUAL_SIZE.width) + GAP_PX, y });
    board.put({ edges: [...board.seen.edges, edgeOf({ source: nodeId, sourceHandle: 'video', target: next, targetHandle: 'assets' })] });
    setSaid(`Added: an animation that is made with ${names.get(nodeId)}`);
    focusOn(next);
  };
  const begin = () => {
    const { x, y } = isNarrow ? { x: 0, y: 0 } : middle.current();
    const [left, top] = [Math.round(x - 400), Math.round(y - 300)];
    const [words, style] = [place('prompt', { x: left, y: top }), place('style', { x: left, y: top + 260 })];
    const film = place('animation-generator', { x: left + 380, y: top });
    const joint = (source: string, handle: string, into: string) => edgeOf({ source, sourceHandle: handle, target: film, targetHandle: into });
    board.put({ edges: [joint(words, 'text', 'prompt'), joint(style, 'style', 'style')] });
    focusOn(words);
  };
  const take = (given: readonly File[], { at, nodeId }: { at?: Place; nodeId?: string | undefined } = {}) => {
    const onto = board.seen.nodes.find(({ id }) => id === nodeId);
    const [first, ...rest] = given;
    if (onto?.data.plugin === 'asset' && first) files.put(onto.id, first);
    for (const file of onto?.data.plugin === 'asset' ? rest : given) {
      const isFor = onto?.data.plugin === 'animation-generator' && onto;
      const { width, height } = SIZES.asset ?? USUAL_SIZE;
      const wanted = isFor ? { x: isFor.position.x - width - GAP_PX, y: isFor.position.y } : at ? { x: at.x - width / 2, y: at.y - height / 2 } : somewhere('asset');
      const made = place('asset', wanted);
      if (isFor) board.put({ edges: [...board.seen.edges, edgeOf({ source: made, sourceHandle: 'file', target: isFor.id, targetHandle: 'assets' })] });
      files.put(made, file);
    }
  };
  const undo = () => board.undo() && setSaid('Undone');
  const redo = () => board.redo() && setSaid('Done again');
  const heard = useRef<(event: KeyboardEvent | ClipboardEvent) => void>(undefined);
  heard.current = (event) => {
    const { target } = event;
    const isElsewhere = target instanceof Element && (target.matches(TYPED_INTO) || target.closest('dialog') !== null);
    if (event.defaultPrevented || isElsewhere) return;
    if (event instanceof ClipboardEvent) {
      const given = filesOf(event.clipboardData);
      const chosen = nodes.filter(({ selected }) => selected);
      if (given.length > 0) event.preventDefault();
      take(given, { nodeId: chosen.length === 1 ? chosen[0]?.id : undefined });
      return;
    }
    const isZ = event.key.toLowerCase() === 'z' && (event.ctrlKey || event.metaKey) && !event.altKey;
    if (!isZ || deletions.shown.some(canUndo)) return; // a session that was just deleted comes back first
    event.preventDefault();
    if (event.shiftKey) redo();
    else undo();
  };
  useEffect(() => {
    const hears = (event: Event) => heard.current?.(event as KeyboardEvent | ClipboardEvent);
    const over = (event: DragEvent) => event.dataTransfer?.types.includes('Files') && event.preventDefault();
    const dropped = (event: DragEvent) => filesOf(event.dataTransfer).length > 0 && event.preventDefault();
    const listeners = { keydown: hears, paste: hears, dragover: over, drop: dropped };
    for (const [kind, listener] of Object.entries(listeners)) document.addEventListener(kind, listener as EventListener);
    return () => {
      for (const [kind, listener] of Object.entries(listeners)) document.removeEventListener(kind, listener as EventListener);
    };
  }, []);

  const shown = { board, files, joints, names, connect: setConnecting, remove, goOn };
  const acts = { add, undo: mayUndo ? undo : undefined, redo: canRedo ? redo : undefined };
  const word = isUnkept ? UNKEPT : LOST[lost];
  return (
    <CanvasProvider value={shown}>
      <title>{`${name} · koda`}</title>
      <div ref={root} className={isNarrow ? 'canvas canvas-narrow' : 'canvas canvas-wide'}>
        <div className="canvas-head">
          <h1>
            <button type="button" aria-haspopup="dialog" title="All canvases" onClick={() => setListing(true)}>
              <span>{name}</span> <ChevronDown aria-hidden className="koda-icon" />
            </button>
          </h1>
          {word && (
            <p role="alert" className="canvas-word">
              <span>{word}</span>
              {!isUnkept && (
                <button type="button" aria-label="Close" className="koda-tool" onClick={() => board.show({ lost: 'nothing' })}>
                  <X aria-hidden className="koda-icon" />
                </button>
              )}
            </p>
          )}
        </div>
        <p role="status" className="sr-only">
          {said}
        </p>
        {isNarrow ? <List {...acts} /> : <Flow {...acts} take={take} middle={middle} />}
        {nodes.length === 0 && (
          <div className="canvas-empty">
            <p>Words, a style and files go in, a video comes out, and that goes into the next one.</p>
            <Button kind="main" onClick={begin}>
              <Sparkles aria-hidden className="size-4" /> Begin with words and a style
            </Button>
          </div>
        )}
        {connecting !== undefined && names.has(connecting) && <Connections nodeId={connecting} close={() => setConnecting(undefined)} />}
        {isListing && <CanvasesList desk={desk} current={board.id} close={() => setListing(false)} />}
      </div>
    </CanvasProvider>
  );
}

function useMedia(query: string): boolean {
  const media = useMemo(() => matchMedia(query), [query]);
  const watch = useMemo(
    () => (told: () => void) => {
      media.addEventListener('change', told);
      return () => media.removeEventListener('change', told);
    },
    [media],
  );
  return useSyncExternalStore(watch, () => media.matches);
}

const FRAMES = 60;

/** Give something the focus once it is there and can be seen. */
function whenThere(root: HTMLElement | null, selector: string, frames = FRAMES): void {
  const found = root?.querySelector<HTMLElement>(selector);
  found?.focus();
  if (root && frames > 0 && (!found || document.activeElement !== found)) requestAnimationFrame(() => whenThere(root, selector, frames - 1));
}
