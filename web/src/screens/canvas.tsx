import { ChevronDown, Sparkles, X } from 'lucide-react';
import { useEffect, useMemo, useRef, useState } from 'react';
import { Link, Redirect, useSearchParams } from 'wouter';
import { KodaProvider } from '../../node/src/context';
import type { AnimationData } from '../../node/src/request';
import '../../node/src/style.css';
import type { SessionSummary } from '../api/client';
import { canUndo, deletions } from '../api/deleted';
import { useLogin } from '../api/hooks';
import { filesOf } from '../api/uploads';
import { PUT } from '../canvas/canvases';
import { CanvasesList } from '../canvas/canvases-list';
import { Connections } from '../canvas/connections';
import { CanvasProvider, type Desk, deskOf, type Open, useBoard, useKeeping, useNames } from '../canvas/desk';
import { Flow, type Sight } from '../canvas/flow';
import { Joints } from '../canvas/joints';
import { type Lost, ordered, type Place } from '../canvas/layout';
import { List } from '../canvas/list';
import { FILM, known } from '../canvas/nodes';
import { Picker } from '../canvas/picker';
import { Placing } from '../canvas/placing';
import { type Refused, type Shared, useShared } from '../canvas/shared';
import '../canvas/style.css';
import { Button } from '../parts/button';
import { TYPED_INTO } from '../parts/keys';
import { useMedia } from '../parts/media';

const NARROW = '(max-width: 47.99rem)';
const LOST: Record<Lost, string> = {
  nothing: '',
  some: 'Part of what was kept of this canvas could not be read, and is left out.',
  all: 'What was kept of this canvas could not be read, so it is empty. Your animations are all there, among your sessions.',
};
const AWAY = 'The server does not answer. What you draw is kept in this browser, and is sent once the server is back.';
const UNKEPT = 'This browser has no room left: the last changes of this canvas are gone once the page is closed.';

/** A canvas by its id; without one, that which was open last. */
export function Canvas({ id }: { id?: string | undefined }) {
  const { data: login } = useLogin();
  return login ? <Found key={login.user} user={login.user} id={id} /> : <p className="py-16 text-muted">One moment…</p>;
}

/** One that is here, or comes: the server is asked what there is before another one is begun. */
function Found({ user, id }: { user: string; id: string | undefined }) {
  const desk = deskOf(user);
  const { shared } = desk;
  const { isRead, isAway, refused } = useShared(shared);
  const isThere = id !== undefined && shared.has(id);
  const open = id === undefined ? undefined : desk.open(id);
  const isComing = isRead && !isAway && isThere && !open && !refused.has(id);
  useEffect(() => {
    if (isComing) void shared.bring(id);
  }, [shared, id, isComing]);
  if (id === undefined && isRead) return <Redirect to={`/c/${shared.current()}`} replace />;
  if (open && id !== undefined)
    return (
      <KodaProvider koda={desk.koda} registry={known} change={open.board.change} canvas={id}>
        <Shown key={id} desk={desk} open={open} />
      </KodaProvider>
    );
  const said = id !== undefined ? refused.get(id)?.problem.message : undefined;
  if (said) return <p role="alert" className="py-16 text-muted">{said}.</p>;
  if (isRead && isAway)
    return (
      <p role="alert" className="py-16 text-muted">
        The server does not answer, and this canvas was never open in this browser. It comes once the server is back.
      </p>
    );
  if (!isRead || isThere) return <p className="py-16 text-muted">One moment…</p>;
  return <NoCanvas />;
}

function NoCanvas() {
  return (
    <div className="mx-auto max-w-md py-24 text-center">
      <title>No such canvas · koda</title>
      <h1 className="text-2xl font-semibold tracking-tight">There is no such canvas here.</h1>
      <p className="mt-3 text-muted">It was deleted, or is somebody else's. The animations that were on it are among your sessions.</p>
      <Link href="/c" className="mt-6 inline-block text-accent underline underline-offset-4">
        To your canvas
      </Link>
    </div>
  );
}

function Shown({ desk, open: { board, files } }: { desk: Desk; open: Open }) {
  const { name, nodes, edges, lost, isUnkept, canUndo: mayUndo, canRedo } = useBoard(board);
  useKeeping(board);
  const names = useNames(nodes);
  const joints = useMemo(() => new Joints(board, known), [board]);
  const placing = useMemo(() => new Placing(board, joints), [board, joints]);
  const isNarrow = useMedia(NARROW);
  const [said, setSaid] = useState('');
  const [connecting, setConnecting] = useState<string>();
  const [isListing, setListing] = useState(false);
  const [isPicking, setPicking] = useState(false);
  const root = useRef<HTMLDivElement>(null);
  const sight = useRef<Sight>(undefined);
  useEffect(() => desk.shared.canvases.opened(board.id), [desk, board]);

  const focusOn = (nodeId: string | undefined) =>
    // it is there once it was drawn, and the canvas measured it
    whenThere(root.current, nodeId === undefined ? '.canvas-tool' : selectorOf(nodeId), (found) => {
      if (nodeId !== undefined) keptInSight(found, () => (isNarrow ? found.scrollIntoView({ block: 'nearest' }) : sight.current?.reveal(nodeId)));
    });
  const middle = (): Place => sight.current?.middle() ?? { x: 0, y: 0 };
  const put = (plugin: string, at = middle()) => (isNarrow ? placing.below({ plugin }) : placing.around(at, { plugin }));
  const chosen = isNarrow ? [] : nodes.filter(({ selected }) => selected);
  const alone = chosen.length === 1 ? chosen[0] : undefined;
  const add = (plugin: string) => {
    const other = plugin === FILM && alone?.data.plugin === FILM ? undefined : alone; // two films are connected where that is said
    const made = (other && placing.beside(other, plugin)) ?? put(plugin);
    setSaid(`Added: ${known.get(plugin)?.plugin.name ?? plugin}`);
    focusOn(made);
  };
  /** Have an animation that is there on the canvas, once. */
  const bring = (sessionId: string, title: string, place: (data: AnimationData) => string) => {
    const there = board.seen.nodes.find(({ data }) => data.plugin === FILM && data.sessionId === sessionId);
    if (there) board.choose(there.id);
    setSaid(there ? `It is on this canvas: ${title}` : `Added: ${title}`);
    focusOn(there?.id ?? place({ plugin: FILM, sessionId }));
  };
  const pick = ({ id, title, prompt }: SessionSummary) => {
    setPicking(false);
    bring(id, title ?? prompt, (data) => (isNarrow ? placing.below(data) : placing.around(middle(), data)));
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
    const other = board.seen.nodes.find(({ id }) => id === nodeId);
    if (!other) return;
    setSaid(`Added: an animation that is made with ${names.get(nodeId)}`);
    focusOn(placing.beside(other, FILM));
  };
  const [params, setParams] = useSearchParams();
  const asked = params.get(PUT);
  useEffect(() => {
    if (asked === null) return;
    setParams((now) => (now.delete(PUT), now), { replace: true });
    bring(asked, 'an animation', (data) => (isNarrow ? placing.below(data) : placing.after(middle(), data)));
  }, [asked]);
  const begin = () => focusOn(placing.begin(middle()));
  const take = (given: readonly File[], { at, nodeId }: { at?: Place; nodeId?: string | undefined } = {}) => {
    const onto = board.seen.nodes.find(({ id }) => id === nodeId);
    const [first, ...rest] = given;
    const isInto = onto?.data.plugin === 'asset';
    if (isInto && first) files.put(onto.id, first);
    for (const file of isInto ? rest : given)
      files.put((onto && placing.beside(onto, 'asset')) ?? put('asset', at), file);
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
      if (given.length > 0) event.preventDefault();
      take(given, { nodeId: alone?.id });
      return;
    }
    const key = event.key.toLowerCase();
    if (!(event.ctrlKey || event.metaKey) || event.altKey || (key !== 'z' && key !== 'y')) return;
    if (deletions.shown.some(canUndo)) return; // a session that was just deleted comes back first
    event.preventDefault();
    if (key === 'y' || event.shiftKey) redo();
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
  const acts = { add, pick: () => setPicking(true), undo: mayUndo ? undo : undefined, redo: canRedo ? redo : undefined };
  const word = isUnkept ? UNKEPT : LOST[lost];
  const { isAway, refused } = useShared(desk.shared);
  const refusal = refused.get(board.id);
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
          {refusal && !word && <Refusal of={refusal} shared={desk.shared} id={board.id} done={() => root.current?.querySelector<HTMLElement>('h1 button')?.focus()} />}
          <p role="status" className={isAway && !word && !refusal ? 'canvas-word' : 'sr-only'}>
            {isAway && AWAY}
          </p>
        </div>
        <p role="status" className="sr-only">
          {said}
        </p>
        {isNarrow ? <List {...acts} /> : <Flow {...acts} take={take} sight={sight} />}
        {nodes.length === 0 && (
          <div className="canvas-empty">
            <p>Words, a style and files go in, a video comes out, and goes into the next one.</p>
            <Button kind="main" onClick={begin}>
              <Sparkles aria-hidden className="size-4" /> Begin with words and a style
            </Button>
          </div>
        )}
        {connecting !== undefined && names.has(connecting) && <Connections nodeId={connecting} close={() => setConnecting(undefined)} />}
        {isPicking && <Picker there={new Set(nodes.flatMap(({ data }) => (data as AnimationData).sessionId ?? []))} pick={pick} close={() => setPicking(false)} />}
        {isListing && <CanvasesList desk={desk} current={board.id} close={() => setListing(false)} />}
      </div>
    </CanvasProvider>
  );
}

/** What the server said of the last change of a canvas, and how it goes on. */
function Refusal({ of: { problem, isConflict }, shared, id, done }: { of: Refused; shared: Shared; id: string; done: () => void }) {
  const decide = (decided: Promise<void>) => void decided.then(() => document.activeElement === document.body && done()); // its buttons went
  return (
    <div role="alert" className="canvas-word canvas-refusal">
      <p>
        {problem.message}. {isConflict ? 'What you drew is kept in this browser.' : 'So the last changes are in this browser alone.'}
      </p>
      {isConflict && (
        <div className="koda-row">
          <Button className="text-sm" title="What you drew stays, as another canvas" onClick={() => decide(shared.takeTheirs(id))}>
            Show that one
          </Button>
          <Button className="text-sm" title="What was drawn elsewhere is replaced by it" onClick={() => decide(shared.keepMine(id))}>
            Keep this one
          </Button>
        </div>
      )}
    </div>
  );
}

function selectorOf(nodeId: string): string {
  const id = CSS.escape(nodeId);
  return `.react-flow__node[data-id="${id}"], [data-node="${id}"]`;
}

const FRAMES = 60;

/** Give something the focus once it is there and can be seen. */
function whenThere(root: HTMLElement | null, selector: string, then: (found: HTMLElement) => void, frames = FRAMES): void {
  const found = root?.querySelector<HTMLElement>(selector);
  found?.focus({ preventScroll: Boolean(found.dataset.id) });
  if (found && document.activeElement === found) then(found);
  else if (root && frames > 0) requestAnimationFrame(() => whenThere(root, selector, then, frames - 1));
}

const GROWS_MS = 3000;

/** Have something in sight, also while it and what is beside it grow, until somebody does something else. */
function keptInSight(found: HTMLElement, reveal: () => void): void {
  reveal();
  const grows = new ResizeObserver(reveal);
  for (const each of [found, found.parentElement]) if (each) grows.observe(each);
  const ended = new AbortController();
  const end = () => {
    grows.disconnect();
    ended.abort();
  };
  for (const kind of ['pointerdown', 'wheel', 'keydown']) window.addEventListener(kind, end, { capture: true, signal: ended.signal });
  setTimeout(end, GROWS_MS);
}
