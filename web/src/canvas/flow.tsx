/** A canvas as a plane: nodes where somebody put them, and the edges between them. */
import {
  applyEdgeChanges, applyNodeChanges, Background, type Connection, type EdgeChange, type NodeChange, type NodeProps, ReactFlow,
  ReactFlowProvider, useReactFlow, useStore,
} from '@xyflow/react'; // prettier-ignore
import '@xyflow/react/dist/base.css';
import { Cable, ListVideo, Maximize, Trash2, ZoomIn, ZoomOut } from 'lucide-react';
import { type MouseEvent, type RefObject, useEffect, useMemo, useRef } from 'react';
import { navigate } from 'wouter/use-browser-location';
import { type CanvasNode, PluginNode } from '../../node/src/plugin-node';
import { wantsRest } from '../api/motion';
import { filesOf } from '../api/uploads';
import { singleKeys, TYPED_INTO } from '../parts/keys';
import type { BoardNode } from './board';
import { useBoard, useCanvas } from './desk';
import type { Place } from './layout';
import { FILM } from './nodes';
import { Tool, Toolbar } from './toolbar';

const LEAST_ZOOM = 0.2;
const MOST_ZOOM = 2;
/** What the name and the toolbar lie over. */
const HEAD_PX = 88;
const TOOLBAR_PX = 104;
const NOT_THE_CANVAS = `${TYPED_INTO}, .nokey *, dialog *, a, button, summary, video, audio, input`;
const TO_BE_READ = {
  'node.a11yDescription.keyboardDisabled':
    'Enter chooses a node. Arrow keys move one that is chosen, C connects it, Delete removes it, Escape lets go of it.',
  'edge.a11yDescription.default': 'Enter chooses an edge, Delete removes it.',
};

interface Props {
  add: (plugin: string, at?: Place) => void;
  pick: () => void;
  undo: (() => void) | undefined;
  redo: (() => void) | undefined;
  take: (files: File[], where: { at?: Place; nodeId?: string | undefined }) => void;
  sight: RefObject<Sight | undefined>;
}

/** What is seen of a plane. */
export interface Sight {
  /** What is in its middle. */
  middle: () => Place;
  /** Have a node in sight, as large as nodes are now. */
  reveal: (nodeId: string) => void;
}

export function Flow(props: Props) {
  return (
    <ReactFlowProvider>
      <Plane {...props} />
    </ReactFlowProvider>
  );
}

function Plane({ add, pick, undo, redo, take, sight }: Props) {
  const { board, names, joints, connect, remove } = useCanvas();
  const { nodes, edges, view } = useBoard(board);
  const { zoomIn, zoomOut, fitView, screenToFlowPosition, setCenter, getZoom } = useReactFlow();
  const plane = useRef<HTMLDivElement>(null);
  const first = useRef(view);
  sight.current = {
    middle: () => {
      const { left, top, width, height } = plane.current?.getBoundingClientRect() ?? new DOMRect();
      return screenToFlowPosition({ x: left + width / 2, y: top + height / 2 });
    },
    reveal: (nodeId) => {
      const seen = plane.current?.getBoundingClientRect();
      const node = plane.current?.querySelector(`.react-flow__node[data-id="${CSS.escape(nodeId)}"]`)?.getBoundingClientRect();
      if (!seen || !node) return;
      const isInside = node.left >= seen.left && node.right <= seen.right && node.top >= seen.top + HEAD_PX && node.bottom <= seen.bottom - TOOLBAR_PX;
      const { x, y } = screenToFlowPosition({ x: node.left + node.width / 2, y: node.top + node.height / 2 });
      if (!isInside) void setCenter(x, y, { ...pace(), zoom: getZoom() });
    },
  };
  const labelled = useLabelled(nodes, names);
  const named = useMemo(
    () =>
      edges.map((each) => {
        const { from, into } = joints.words(each, names);
        return { ...each, ariaLabel: `${from}, into ${into}` };
      }),
    [edges, names, joints],
  );
  const isDragged = useRef(false);
  const dragged = () => {
    isDragged.current = true;
    board.mark();
  };
  const letGo = () => void (isDragged.current = false);
  const change = (changes: NodeChange<BoardNode>[]) => {
    if (!isDragged.current && changes.some(({ type }) => type === 'position')) board.mark('keys');
    const after = applyNodeChanges(changes, board.seen.nodes);
    if (changes.some(isKept)) board.put({ nodes: after });
    else board.show({ nodes: after });
  };
  const pressed = useRef<(event: KeyboardEvent) => void>(undefined);
  pressed.current = (event) => {
    const target = event.target instanceof Element ? event.target : document.body;
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === 'Escape' && target.closest('.nokey')) return target.closest<HTMLElement>('.react-flow__node')?.focus();
    if (target.matches(NOT_THE_CANVAS) || !(target === document.body || plane.current?.contains(target))) return;
    const chosen = board.seen.nodes.filter(({ selected }) => selected);
    const at = target.closest<HTMLElement>('.react-flow__node')?.dataset.id;
    if (event.key === 'Delete' || event.key === 'Backspace') {
      event.preventDefault();
      const lines = board.seen.edges.filter(({ selected }) => selected).map(({ id }) => id);
      const ids = chosen.map(({ id }) => id);
      if (ids.length + lines.length > 0) remove(ids, lines);
      else if (at) remove([at]);
    }
    if (event.key.toLowerCase() === 'c' && singleKeys.on()) {
      const one = at ?? (chosen.length === 1 ? chosen[0]?.id : undefined);
      if (one) connect(one);
    }
  };
  useEffect(() => {
    const hears = (event: KeyboardEvent) => pressed.current?.(event);
    document.addEventListener('keydown', hears);
    return () => document.removeEventListener('keydown', hears);
  }, []);
  return (
    <>
      <Toolbar add={add} pick={pick} undo={undo} redo={redo}>
        <span role="separator" aria-orientation="vertical" className="canvas-line" />
        <Tool name="Smaller" Icon={ZoomOut} act={() => void zoomOut(pace())} />
        <Tool name="Larger" Icon={ZoomIn} act={() => void zoomIn(pace())} />
        <Tool name="See all of it" Icon={Maximize} act={() => void fitView({ ...pace(), ...FIT })} />
      </Toolbar>
      <div
        ref={plane}
        className="canvas-plane"
        onClickCapture={followed}
        onDrop={(event) => {
          const files = filesOf(event.dataTransfer);
          if (files.length === 0) return;
          event.preventDefault();
          const nodeId = event.target instanceof Element ? event.target.closest<HTMLElement>('.react-flow__node')?.dataset.id : undefined;
          take(files, { at: screenToFlowPosition({ x: event.clientX, y: event.clientY }), nodeId });
        }}
      >
        <ReactFlow<BoardNode>
          aria-label="Nodes of the canvas"
          nodes={labelled}
          edges={named}
          nodeTypes={NODE_TYPES}
          onNodesChange={change}
          onEdgesChange={(changes: EdgeChange[]) => board.show({ edges: applyEdgeChanges(changes, board.seen.edges) })}
          onConnect={(connection: Connection) => joints.make(connection)}
          isValidConnection={joints.may}
          onNodeDragStart={dragged}
          onNodeDragStop={letGo}
          onSelectionDragStart={dragged}
          onSelectionDragStop={letGo}
          onMoveEnd={(_event, { x, y, zoom }) => board.look({ x, y, zoom })}
          {...(first.current ? { defaultViewport: first.current } : { fitView: true, fitViewOptions: FIT })}
          minZoom={LEAST_ZOOM}
          maxZoom={MOST_ZOOM}
          deleteKeyCode={null}
          panActivationKeyCode={null}
          zoomOnDoubleClick={false}
          panOnScroll
          ariaLabelConfig={TO_BE_READ}
        >
          <Background gap={24} size={1.5} />
        </ReactFlow>
      </div>
    </>
  );
}

const FIT = { padding: { top: `${HEAD_PX}px`, bottom: `${TOOLBAR_PX}px`, x: '48px' }, maxZoom: 1 } as const;
const NODE_TYPES = { plugin: Framed };

/** How fast the view moves; not at all where nothing should. */
function pace(): { duration?: number } {
  return wantsRest() ? {} : { duration: 200 };
}

/** Whether a change is one of what is kept. How large a node came out is not. */
function isKept(change: NodeChange<BoardNode>): boolean {
  return change.type === 'position' || change.type === 'replace' || change.type === 'add' || change.type === 'remove' || (change.type === 'dimensions' && change.resizing !== undefined);
}

/** Nodes with what they are called: the same objects as long as that is the same. */
function useLabelled(nodes: readonly BoardNode[], names: ReadonlyMap<string, string>): BoardNode[] {
  const kept = useRef(new WeakMap<BoardNode, BoardNode>());
  return useMemo(
    () =>
      nodes.map((each) => {
        const ariaLabel = names.get(each.id) ?? each.id;
        const there = kept.current.get(each);
        if (there?.ariaLabel === ariaLabel) return there;
        const made = { ...each, ariaLabel };
        kept.current.set(each, made);
        return made;
      }),
    [nodes, names],
  );
}

/** A link to a studio is followed without loading the page anew. */
function followed(event: MouseEvent) {
  const link = event.target instanceof Element ? event.target.closest('a') : null;
  const path = link?.getAttribute('href');
  if (!path?.startsWith('/s/') || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  navigate(path);
}

function Framed(props: NodeProps<CanvasNode>) {
  const isAlone = useStore(({ nodes }) => nodes.filter(({ selected }) => selected).length === 1);
  return (
    <>
      {props.selected && isAlone && <Acts id={props.id} plugin={props.data.plugin} />}
      <PluginNode {...props} />
    </>
  );
}

/** What can be done with the node that is chosen, in the same size however far away it is. */
function Acts({ id, plugin }: { id: string; plugin: string }) {
  const { names, connect, remove, goOn } = useCanvas();
  const zoom = useStore(({ transform }) => transform[2]);
  const name = names.get(id) ?? '';
  return (
    <div role="group" aria-label={`For ${name}`} className="canvas-acts nodrag nopan nokey" style={{ transform: `scale(${1 / zoom})` }}>
      <button type="button" aria-label={`Connect to…: ${name}`} title="Connect (C)" onClick={() => connect(id)}>
        <Cable aria-hidden /> Connect to…
      </button>
      {plugin === FILM && (
        <button type="button" aria-label={`Go on with it: ${name}`} title="Another animation, made with this one" onClick={() => goOn(id)}>
          <ListVideo aria-hidden /> Go on with it
        </button>
      )}
      <button type="button" aria-label={`Remove ${name}`} title="Remove (Delete)" onClick={() => remove([id])}>
        <Trash2 aria-hidden />
      </button>
    </div>
  );
}
