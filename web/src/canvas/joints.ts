/** Which edges there may be on a canvas, and how they are made. */
import type { Registry } from '../../node/src/registry';
import { connected, type Edge, fits, handleOf, mayConnect } from '../../node/src/values';
import type { Board } from './board';
import { edgeOf } from './layout';

type Joint = Omit<Edge, 'id'>;

export class Joints {
  constructor(
    private readonly board: Board,
    private readonly registry: Registry,
  ) {}

  handles = (nodeId: string) => {
    const node = this.board.seen.nodes.find(({ id }) => id === nodeId);
    return node && this.registry.get(node.data.plugin)?.plugin.handles;
  };

  may = (joint: Joint): boolean => mayConnect(joint, this.board.seen.edges, this.handles);

  make = (joint: Joint, step?: string): void => {
    const into = handleOf(this.handles(joint.target)?.inputs ?? [], joint.targetHandle);
    if (this.may(joint)) this.board.join(connected(this.board.seen.edges, edgeOf(joint), into), step);
  };

  handleName(nodeId: string, handle: string | null | undefined): string {
    const { inputs = [], outputs = [] } = this.handles(nodeId) ?? {};
    return handleOf([...inputs, ...outputs], handle)?.name ?? handle ?? '';
  }

  /** All edges between a node and others that there are or may be. */
  of(nodeId: string): { into: Edge[]; from: Edge[] } {
    const { nodes, edges } = this.board.seen;
    const others = nodes.filter(({ id }) => id !== nodeId);
    const between = (source: string, target: string) =>
      (this.handles(source)?.outputs ?? []).flatMap((output) =>
        (this.handles(target)?.inputs ?? []).flatMap((input) => {
          const edge = edgeOf({ source, sourceHandle: output.id, target, targetHandle: input.id });
          const isThere = edges.some(({ id }) => id === edge.id);
          return fits(output.type, input.type) && (isThere || this.may(edge)) ? [edge] : [];
        }),
      );
    return { into: others.flatMap(({ id }) => between(id, nodeId)), from: others.flatMap(({ id }) => between(nodeId, id)) };
  }

  /** How nodes of two plugins go together: the first output into the first input of its own kind, else into one that takes it. */
  between(from: string, into: string): { sourceHandle: string; targetHandle: string; multiple: boolean } | undefined {
    const outputs = this.registry.get(from)?.plugin.handles?.outputs ?? [];
    const inputs = this.registry.get(into)?.plugin.handles?.inputs ?? [];
    const fitting = outputs.flatMap((output) => inputs.filter((input) => fits(output.type, input.type)).map((input) => ({ output, input })));
    const best = fitting.find(({ output, input }) => output.id === input.id) ?? fitting[0];
    return best && { sourceHandle: best.output.id, targetHandle: best.input.id, multiple: best.input.multiple ?? false };
  }

  /** Where an edge begins and ends, in words. */
  words({ source, sourceHandle, target, targetHandle }: Joint, names: ReadonlyMap<string, string>): { from: string; into: string } {
    const [output, input] = [this.handleName(source, sourceHandle), this.handleName(target, targetHandle)];
    return { from: `${output} of ${names.get(source) ?? source}`, into: `${input} of ${names.get(target) ?? target}` };
  }
}
