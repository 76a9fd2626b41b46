/** Where edges end and begin: inputs on the left, outputs on the right, told apart by colour and by shape. */
import { Handle, Position } from '@xyflow/react';
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
  return (
    <li title={`${name}: ${told}`}>
      <Handle id={id} type={side} position={side === 'target' ? Position.Left : Position.Right} className="koda-socket" data-type={type} />
      {name}
    </li>
  );
}
