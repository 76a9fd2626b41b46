/** The animation node on a React Flow canvas. */
import { type Node, NodeResizeControl, ResizeControlVariant, useNodeConnections, useNodesData, useReactFlow, useStore, useStoreApi } from '@xyflow/react';
import { type KeyboardEvent, type MouseEvent, useCallback } from 'react';
import { AnimationScreen, PhaseLine, useWhere } from './animation';
import { animationGeneratorPlugin } from './animation-generator';
import { useAround, useGiven } from './context';
import { Icon } from './parts';
import type { NodeData, NodeParts } from './registry';
import type { AnimationData } from './request';
import { shownOf } from './session';
import { Sockets } from './sockets';
import { LEAST_PX, MOST_PX, widthAfter } from './width';

/** Below it nobody reads what stands in a node: it is its picture and its phase. */
const READABLE_ZOOM = 0.5;
const USED = 'a, button, input, textarea, select, video, summary, label, .koda-resize';

export function AnimationNode({ id, data, selected }: NodeParts) {
  const kept = data as AnimationData;
  const { koda, change: keep } = useAround();
  const { updateNodeData } = useReactFlow();
  const edges = useNodeConnections({ id, handleType: 'target' });
  const given = useGiven(id, edges, useNodesData<Node<NodeData>>(edges.map(({ source }) => source)));
  const change = useCallback((what: Partial<AnimationData>) => (keep ?? updateNodeData)(id, what), [id, keep, updateNodeData]);
  const isFar = useStore(({ transform }) => transform[2] < READABLE_ZOOM);
  const where = useWhere(kept.sessionId);
  const { sessionId, collapsed = false } = kept;
  const open = ({ target }: MouseEvent) => {
    if (sessionId !== undefined && !(target as Element).closest(USED)) koda.open(sessionId);
  };
  return (
    <article className="koda-node" data-selected={selected || undefined} data-mood={where.mood} onDoubleClick={open} aria-label={where.title}>
      {selected && (
        <NodeResizeControl className="koda-resize" position="right" variant={ResizeControlVariant.Line} resizeDirection="horizontal" minWidth={LEAST_PX} maxWidth={MOST_PX}>
          <Width id={id} title={where.title} />
        </NodeResizeControl>
      )}
      <header>
        <span className="koda-title">{where.title}</span>
        <PhaseLine {...where} />
        {sessionId !== undefined && (
          <a className="koda-tool nodrag" href={koda.studio(sessionId)} aria-label={`Open ${where.title} in the studio`} title="Open the studio (double click)">
            <Icon name="open" />
          </a>
        )}
        <button
          type="button"
          className="koda-tool nodrag"
          aria-expanded={!collapsed}
          aria-label={`${collapsed ? 'Unfold' : 'Fold'} ${where.title}`}
          title={collapsed ? 'Unfold' : 'Fold'}
          onClick={() => change({ collapsed: !collapsed })}
        >
          <Icon name={collapsed ? 'unfold' : 'fold'} />
        </button>
      </header>
      <Sockets handles={animationGeneratorPlugin.handles} />
      {!collapsed &&
        (isFar ? (
          <Poster sessionId={sessionId} words={where.words} />
        ) : (
          <div className="koda-body nodrag nopan nowheel nokey">
            <AnimationScreen id={id} data={kept} change={change} given={given} />
          </div>
        ))}
    </article>
  );
}

/** How wide the node is, for keys: what is drawn along its edge by a pointer. */
function Width({ id, title }: { id: string; title: string }) {
  const store = useStoreApi();
  const width = useStore(({ nodeLookup }) => Math.round(nodeLookup.get(id)?.measured.width ?? LEAST_PX));
  const keys = (event: KeyboardEvent) => {
    const { nodeLookup, triggerNodeChanges } = store.getState();
    const to = widthAfter(event, width);
    if (to === undefined) return;
    event.preventDefault();
    event.stopPropagation(); // arrow keys move a node
    const dimensions = { width: to, height: nodeLookup.get(id)?.measured.height ?? 0 };
    triggerNodeChanges([{ id, type: 'dimensions', resizing: false, setAttributes: 'width', dimensions }]);
  };
  return (
    <span
      role="separator"
      tabIndex={0}
      className="koda-width nokey"
      aria-label={`Width of ${title}`}
      aria-orientation="vertical"
      aria-valuenow={width}
      aria-valuemin={LEAST_PX}
      aria-valuemax={MOST_PX}
      aria-valuetext={`${width} pixels`}
      title="Width: ← →, with Shift in large steps"
      onKeyDown={keys}
    />
  );
}

function Poster({ sessionId, words }: { sessionId: string | undefined; words: string }) {
  const { koda } = useAround();
  const { session } = useWhere(sessionId);
  const made = session && shownOf(session.state);
  return (
    <div className="koda-poster">
      {session && made?.jobId && <img src={koda.media(session.id, 'thumbnail', made.jobId)} alt="" />}
      <span>{words}</span>
    </div>
  );
}
