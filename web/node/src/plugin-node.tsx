/** Any node of a canvas: shown by its plugin's component, or by the fallback. */
import type { Node, NodeProps, NodeTypes } from '@xyflow/react';
import { useAround } from './context';
import { FallbackNode } from './fallback-node';
import type { NodeData } from './registry';

/** A node of a canvas: its type is `plugin`, and its data say which one. */
export type CanvasNode = Node<NodeData, 'plugin'>;

export function PluginNode({ id, data, selected }: NodeProps<CanvasNode>) {
  const Component = useAround().registry.get(data.plugin)?.component ?? FallbackNode;
  return <Component id={id} data={data} selected={selected} />;
}

/** What React Flow is told of them. */
export const nodeTypes: NodeTypes = { plugin: PluginNode };
