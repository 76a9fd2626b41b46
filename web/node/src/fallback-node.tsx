/** A node of a plugin that this page does not know: it is kept as it is, with its edges. */
import { Handle, Position, useNodeConnections } from '@xyflow/react';
import type { NodeParts } from './registry';

export function FallbackNode({ id, data }: NodeParts) {
  const into = useNodeConnections({ id, handleType: 'target' }).map(({ targetHandle }) => targetHandle);
  const from = useNodeConnections({ id, handleType: 'source' }).map(({ sourceHandle }) => sourceHandle);
  return (
    <article className="koda-node" data-mood="rests" aria-label={`Unknown: ${data.plugin}`}>
      <header>
        <span className="koda-title">{data.plugin || 'No plugin'}</span>
      </header>
      <div className="koda-body koda-screen">
        <p className="koda-fact">This page knows no such node. It is kept as it is, with what it is connected to.</p>
      </div>
      {[...new Set(into)].map((handle) => (
        <Handle key={handle} id={handle} type="target" position={Position.Left} isConnectable={false} className="koda-socket" />
      ))}
      {[...new Set(from)].map((handle) => (
        <Handle key={handle} id={handle} type="source" position={Position.Right} isConnectable={false} className="koda-socket" />
      ))}
    </article>
  );
}
