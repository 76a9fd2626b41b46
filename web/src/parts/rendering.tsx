import { useId, useState } from 'react';
import { useAct } from '../api/acts';
import type { Schemas, SessionView } from '../api/client';
import { canBeTransparent } from '../api/finals';
import { useChosen, useVersions } from '../api/versions';
import type { Send } from '../screens/session';
import { Button } from './button';

type Options = Required<Schemas['RenderOptions']>;
type Chosen = Omit<Options, 'transparent'>;

const USUAL: Options = { resolution: '1080p', fps: 60, format: 'mp4', transparent: false };
const CHOICES: { [K in keyof Chosen]: [value: Chosen[K], words: string][] } = {
  resolution: [['720p', '720p'], ['1080p', '1080p'], ['4k', '4K']],
  fps: [[30, '30 fps'], [60, '60 fps']],
  format: [['mp4', 'mp4'], ['webm', 'webm'], ['mov', 'mov (ProRes)'], ['gif', 'gif']],
}; // prettier-ignore
const LABELS = { resolution: 'Size', fps: 'Frames per second', format: 'Format' };

interface Props {
  session: SessionView;
  send: Send;
  busy: boolean;
  /** Whether it was rendered already, which is done once more. */
  again?: boolean;
  /** Whether that is what there is to do, beside no video that could be taken away. */
  isMain?: boolean;
}

/** The final video's size, rate and format, and the button that has it made so. */
export function Rendering({ session, send, busy, again = false, isMain = !again }: Props) {
  const usual: Options = { ...USUAL, ...session.state.render };
  const [wanted, setWanted] = useState(usual);
  const chosen = possible(wanted);
  const [explained, rendered] = [useId(), useId()];
  const same = (Object.keys(usual) as (keyof Options)[]).every((name) => chosen[name] === usual[name]);
  const as = chosen.format === 'mp4' ? '' : ` as ${chosen.format}`;
  const named = `${chosen.resolution === '4k' ? '4K' : chosen.resolution} at ${chosen.fps} fps${as}`;
  const render = () => void (same && !again ? send('accept') : send('render', told(chosen)));
  useAct(!busy && `Render ${named}`, render);
  const choice = <K extends keyof Chosen>(name: K) => (
    <select
      key={name}
      aria-label={LABELS[name]}
      className="min-h-10 rounded-xl bg-sunken pr-8 pl-3 text-sm"
      value={String(chosen[name])}
      onChange={({ target }) => {
        const found = CHOICES[name].find(([value]) => String(value) === target.value);
        if (found) setWanted({ ...wanted, [name]: found[0] });
      }}
    >
      {CHOICES[name].map(([value, words]) => (
        <option key={words} value={String(value)} disabled={name === 'fps' && chosen.format === 'gif' && value !== chosen.fps}>
          {words}
        </option>
      ))}
    </select>
  );
  const versions = useVersions(session.id);
  const [number] = useChosen();
  const of = versions.length > 1 && versions.find(({ current }) => current)?.number;
  const which = of === versions.at(-1)?.number ? 'the newest' : 'the current one';
  const other = number !== undefined && number !== of ? `, not version ${number} that you look at` : '';
  return (
    <div className="space-y-3">
      <div className="flex flex-wrap items-center gap-2">
        {(['resolution', 'fps', 'format'] as const).map((name) => choice(name))}
        {canBeTransparent(chosen.format) && (
          <label className="flex min-h-10 cursor-pointer items-center gap-2.5 px-1 text-sm">
            <input
              type="checkbox"
              className="size-4 accent-(--accent)"
              aria-describedby={explained}
              checked={chosen.transparent}
              onChange={({ target }) => setWanted({ ...wanted, transparent: target.checked })}
            />
            Transparent
          </label>
        )}
      </div>
      {canBeTransparent(chosen.format) && (
        <p id={explained} className="text-sm text-muted">
          Transparent: what the page leaves transparent stays so, to be laid over something else.
        </p>
      )}
      <Button kind={isMain ? 'main' : 'plain'} onClick={render} disabled={busy} aria-describedby={of ? rendered : undefined}>
        Render {named}
      </Button>
      {of && (
        <p id={rendered} className="text-sm text-muted">
          {`Renders version ${of}, ${which}${other}.`}
        </p>
      )}
    </div>
  );
}

/** What is sent: an older server knows nothing of transparency. */
function told({ transparent, ...chosen }: Options): Partial<Options> {
  return transparent ? { ...chosen, transparent } : chosen;
}

/** What can be made of what is wanted: a gif has 30 frames a second, and mp4 has no place for transparency. */
function possible(wanted: Options): Options {
  return { ...wanted, fps: wanted.format === 'gif' ? 30 : wanted.fps, transparent: wanted.transparent && canBeTransparent(wanted.format) };
}
