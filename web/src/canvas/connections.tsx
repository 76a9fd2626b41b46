/** What a node is connected to, and what it may be: the same as drawing edges, without a pointer. */
import type { Edge } from '../../node/src/values';
import { Dialog } from '../parts/dialog';
import { useBoard, useCanvas } from './desk';

export function Connections({ nodeId, close }: { nodeId: string; close: () => void }) {
  const { board, joints, names } = useCanvas();
  const { edges } = useBoard(board);
  const { into, from } = joints.of(nodeId);
  const there = new Set(edges.map(({ id }) => id));
  const toggle = (edge: Edge) => {
    if (there.has(edge.id)) board.join(edges.filter(({ id }) => id !== edge.id));
    else joints.make(edge);
  };
  const lists = [
    { title: 'What it is made with', found: into, words: (edge: Edge) => joints.words(edge, names).from, here: ({ targetHandle }: Edge) => `as ${joints.handleName(nodeId, targetHandle)}` },
    { title: 'What is made with it', found: from, words: (edge: Edge) => joints.words(edge, names).into, here: ({ sourceHandle }: Edge) => `gets ${joints.handleName(nodeId, sourceHandle)}` },
  ];
  return (
    <Dialog title={`Connect ${names.get(nodeId) ?? ''}`} close={close}>
      {into.length + from.length === 0 && <p className="mt-2 text-sm text-muted">There is nothing yet that it fits to. Add another node first.</p>}
      {lists.map(({ title, found, words, here }) => (
        <fieldset key={title} className="canvas-choices" hidden={found.length === 0}>
          <legend>{title}</legend>
          {found.map((edge) => (
            <label key={edge.id}>
              <input type="checkbox" checked={there.has(edge.id)} onChange={() => toggle(edge)} />
              <span>
                {words(edge)} <small>{here(edge)}</small>
              </span>
            </label>
          ))}
        </fieldset>
      ))}
    </Dialog>
  );
}
