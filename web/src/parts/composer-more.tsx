import { composing, useComposing } from '../api/composing';
import { LIMITS, MODES } from '../api/this-session';
import { Modes, Rules } from './allowed';

/** What else may be said of what is to be made, folded away until somebody wants to: the server's own words answer what is wrong. */
export function More() {
  const asked = useComposing();
  const { style, duration, fps, mode, rules, budget } = asked;
  const limits = LIMITS.filter(([name]) => name !== 'warnAt');
  const said = [style, MODES.find(([each]) => each === mode)?.[1], rules.length > 0 && (rules.length === 1 ? 'a rule' : `${rules.length} rules`), limits.some(([name]) => budget[name]) && 'a budget'].filter(Boolean);
  return (
    <details className="px-3 pb-2 text-sm">
      <summary className="min-h-6 w-fit cursor-pointer text-muted">{said.length > 0 ? `More: ${said.join(', ')}` : 'More: style, length, budget, what agents may do'}</summary>
      <div className="mt-2 space-y-4">
        <div className="grid gap-3 sm:grid-cols-[1fr_9.5rem_9.5rem]">
          <Field label="Style" placeholder="playful, hand-drawn…" value={style} set={(style) => composing.put({ style })} />
          <Field label="Length, in seconds" type="number" placeholder="any" value={duration} set={(duration) => composing.put({ duration })} />
          <Field label="Frames each second" type="number" placeholder="any" value={fps} set={(fps) => composing.put({ fps })} />
        </div>
        <div>
          <p className="mb-1 font-medium">What agents may do by themselves</p>
          <Modes mode={mode || 'auto'} choose={(mode) => composing.put({ mode: mode === 'auto' ? '' : mode })} />
          <div className="mt-2">
            <Rules rules={rules} set={(rules) => composing.put({ rules })} />
          </div>
        </div>
        <div>
          <p className="mb-1 font-medium">
            Budget <span className="font-normal text-muted">You are asked once so much was used.</span>
          </p>
          <div className="grid grid-cols-2 gap-3 sm:grid-cols-4">
            {limits.map(([name, words]) => (
              <Field key={name} label={words} type="number" placeholder="no limit" value={budget[name] ?? ''} set={(value) => composing.put({ budget: { ...budget, [name]: value } })} />
            ))}
          </div>
        </div>
      </div>
    </details>
  );
}

function Field({ label, value, set, type = 'text', placeholder }: { label: string; value: string; set: (value: string) => void; type?: string; placeholder: string }) {
  return (
    <label className="space-y-1">
      <span className="block">{label}</span>
      <input type={type} step="any" className="field py-1.5" placeholder={placeholder} value={value} onChange={({ target }) => set(target.value)} />
    </label>
  );
}
