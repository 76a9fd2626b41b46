import { composing, useComposing } from '../api/composing';
import { LIMITS, MODES } from '../api/this-session';
import { Modes, Rules } from './allowed';
import { Field } from './field';

/** What else may be said of what is to be made, folded away until somebody wants to: the server's own words answer what is wrong. */
export function More() {
  const asked = useComposing();
  const { style, duration, fps, mode, rules, budget, problem } = asked;
  const limits = LIMITS.filter(([name]) => name !== 'warnAt');
  const said = [style, MODES.find(([each]) => each === mode)?.[1], rules.length > 0 && (rules.length === 1 ? 'a rule' : `${rules.length} rules`), limits.some(([name]) => budget[name]) && 'a budget'].filter(Boolean);
  return (
    <details className="px-3 pb-2 text-sm">
      <summary className="min-h-6 w-fit cursor-pointer wrap-anywhere text-muted">{said.length > 0 ? `More: ${said.join(', ')}` : 'More: style, length, budget, what agents may do'}</summary>
      <div className="mt-2 space-y-4">
        <div className="grid gap-3 sm:grid-cols-[1fr_9.5rem_9.5rem]">
          <Field label="Style" placeholder="playful, hand-drawn…" problem={problem} name="style" value={style} set={(style) => composing.put({ style })} />
          <Field label="Length, in seconds" isNumber placeholder="any" problem={problem} name="options.duration" value={duration} set={(duration) => composing.put({ duration })} />
          <Field label="Frames each second" isNumber placeholder="any" problem={problem} name="options.fps" value={fps} set={(fps) => composing.put({ fps })} />
        </div>
        <div>
          <p className="mb-1 font-medium">What agents may do by themselves</p>
          <Modes mode={mode || 'auto'} choose={(mode) => composing.put({ mode: mode === 'auto' ? '' : mode })} />
          <div className="mt-2">
            <Rules problem={problem} name="permissions.rules" rules={rules} set={(rules) => composing.put({ rules })} />
          </div>
        </div>
        <div>
          <p className="mb-1 font-medium">
            Budget <span className="font-normal text-muted">You are asked once so much was used.</span>
          </p>
          <div className="grid grid-cols-2 gap-3 sm:grid-cols-4">
            {limits.map(([name, words]) => (
              <Field
                key={name}
                label={words}
                isNumber
                placeholder="no limit"
                problem={problem}
                name={`budget.${name}`}
                value={budget[name] ?? ''}
                set={(value) => composing.put({ budget: { ...budget, [name]: value } })}
              />
            ))}
          </div>
        </div>
      </div>
    </details>
  );
}
