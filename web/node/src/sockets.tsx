/**
 * Where edges end and begin: inputs on the left, outputs on the right, told apart by colour and by shape.
 *
 * By keys an edge is drawn as by two clicks: Enter on one socket, Enter on another one. Sockets are come to with Tab where their node
 * is chosen, and where an edge that was begun may end.
 */
import { Handle, Position, useNodeId, useStore, useStoreApi } from '@xyflow/react';
import { type KeyboardEvent, type MouseEvent, useRef } from 'react';
import type { PluginHandle, PluginHandles } from './plugin';

export function Sockets({ handles }: { handles: PluginHandles }) {
  return (
    <div className="koda-sockets">
      <ul aria-label="Takes">
        {handles.inputs.map((each) => (
          <Socket key={each.id} handle={each} side="target" />
        ))}
      </ul>
      <ul aria-label="Gives">
        {handles.outputs.map((each) => (
          <Socket key={each.id} handle={each} side="source" />
        ))}
      </ul>
    </div>
  );
}

function Socket({ handle, side }: { handle: PluginHandle; side: 'source' | 'target' }) {
  const { id, name, type, required, multiple } = handle;
  const told = [type, required && 'needed', multiple && 'any number'].filter(Boolean).join(', ');
  const { isReached, isBegun, wasMade, pressed, keys } = useKeys(handle, side);
  const reached = isReached
    ? { tabIndex: 0, role: 'button', 'aria-label': `${side === 'source' ? 'Connect' : 'Connect to'} ${name}`, 'aria-pressed': isBegun, onKeyDown: keys }
    : {};
  return (
    <li title={`${name}: ${told}`} onClick={pressed}>
      <Handle id={id} type={side} position={side === 'target' ? Position.Left : Position.Right} className="koda-socket" data-type={type} onConnect={wasMade} {...reached} />
      {name}
    </li>
  );
}

/** What keys do at a socket; said aloud is what came of it. */
function useKeys({ id, name }: PluginHandle, side: 'source' | 'target') {
  const node = useNodeId();
  const store = useStoreApi();
  const isChosen = useStore(({ nodeLookup }) => Boolean(node && nodeLookup.get(node)?.selected));
  const begun = useStore(({ connectionClickStartHandle }) => connectionClickStartHandle);
  const isMade = useRef(false);
  const isByKeys = useRef(false);
  const isBegun = begun?.nodeId === node && begun?.type === side && begun.id === id;
  const mayEnd = begun !== null && begun.nodeId !== node && begun.type !== side;
  const say = (ariaLiveMessage: string) => store.setState({ ariaLiveMessage });
  const keys = (event: KeyboardEvent<HTMLElement>) => {
    if (!['Enter', ' ', 'Escape'].includes(event.key) || (event.key === 'Escape' && !begun)) return;
    event.preventDefault();
    event.stopPropagation(); // they choose a node, or let go of it
    const { currentTarget: socket } = event;
    if (event.key === 'Escape' || isBegun) {
      store.setState({ connectionClickStartHandle: null });
      say('Nothing is connected');
    } else {
      [isMade.current, isByKeys.current] = [false, true];
      socket.click();
      isByKeys.current = false;
      if (!begun) return say(`${name}: go to another node's socket, and press Enter there. Escape leaves it.`);
      say(isMade.current ? 'Connected' : 'These two do not go together');
    }
    if (!isChosen) socket.closest<HTMLElement>('.react-flow__node')?.focus(); // Tab comes to this one no more
  };
  const pressed = (event: MouseEvent) => {
    if (isByKeys.current) event.stopPropagation(); // a click chooses a node
  };
  return { isReached: isChosen || mayEnd, isBegun, wasMade: () => void (isMade.current = true), pressed, keys };
}
