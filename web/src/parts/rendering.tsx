import { useState } from 'react';
import { useAct } from '../api/acts';
import type { Schemas, SessionView } from '../api/client';
import type { Send } from '../screens/session';
import { Button } from './button';

type Options = Required<Schemas['RenderOptions']>;

const USUAL: Options = { resolution: '1080p', fps: 60, format: 'mp4' };
const CHOICES: { [K in keyof Options]: [value: Options[K], words: string][] } = {
  resolution: [['720p', '720p'], ['1080p', '1080p'], ['4k', '4K']],
  fps: [[30, '30 fps'], [60, '60 fps']],
  format: [['mp4', 'mp4'], ['webm', 'webm']],
}; // prettier-ignore
const LABELS = { resolution: 'Size', fps: 'Frames per second', format: 'Format' };

/** The final video's size, rate and format, and the button that has it made so. */
export function Rendering({ session, send, busy, again = false }: { session: SessionView; send: Send; busy: boolean; again?: boolean }) {
  const usual: Options = { ...USUAL, ...session.state.render };
  const [chosen, setChosen] = useState(usual);
  const same = (Object.keys(usual) as (keyof Options)[]).every((name) => chosen[name] === usual[name]);
  const named = `${chosen.resolution === '4k' ? '4K' : chosen.resolution} at ${chosen.fps} fps`;
  const render = () => void (same && !again ? send('accept') : send('render', chosen));
  useAct(!busy && `Render ${named}`, render);
  const choice = <K extends keyof Options>(name: K) => (
    <select
      key={name}
      aria-label={LABELS[name]}
      className="min-h-10 rounded-xl bg-sunken pr-8 pl-3 text-sm"
      value={String(chosen[name])}
      onChange={({ target }) => {
        const found = CHOICES[name].find(([value]) => String(value) === target.value);
        if (found) setChosen({ ...chosen, [name]: found[0] });
      }}
    >
      {CHOICES[name].map(([value, words]) => (
        <option key={words} value={String(value)}>
          {words}
        </option>
      ))}
    </select>
  );
  return (
    <div className="space-y-3">
      <div className="flex flex-wrap gap-2">{(['resolution', 'fps', 'format'] as const).map((name) => choice(name))}</div>
      <Button kind={again ? 'plain' : 'main'} onClick={render} disabled={busy}>
        Render {named}
      </Button>
    </div>
  );
}
