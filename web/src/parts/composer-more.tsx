import { Suspense, useState } from 'react';
import { composing, useComposing } from '../api/composing';
import { LIMITS, MODES } from '../api/this-session';
import { Field } from './field';
import { late } from './late';

const Modes = late(() => import('./allowed').then((module) => module.Modes));
const Rules = late(
  () => import('./allowed').then((module) => module.Rules),
  () => null, // where it is said of the one
);
const ProjectList = late(() => import('./project-list').then((module) => module.ProjectList));
const PROJECTS = 'projects-there';

/** What else may be said of what is to be made, folded away until somebody wants to: the server's own words answer what is wrong. */
export function More() {
  const asked = useComposing();
  const { style, project, duration, fps, mode, rules, budget, problem } = asked;
  const [wasOpen, setOpen] = useState(false);
  const limits = LIMITS.filter(([name]) => name !== 'warnAt');
  const said = [style, project && `in ${project}`, MODES.find(([each]) => each === mode)?.[1], rules.length > 0 && (rules.length === 1 ? 'a rule' : `${rules.length} rules`), limits.some(([name]) => budget[name]) && 'a budget'].filter(Boolean);
  return (
    <details className="px-3 pb-2 text-sm" onToggle={() => setOpen(true)}>
      <summary className="min-h-6 w-fit cursor-pointer wrap-anywhere text-muted">{said.length > 0 ? `More: ${said.join(', ')}` : 'More: style, length, project, budget, what agents may do'}</summary>
      <div className="mt-2 space-y-4">
        <div className="grid gap-3 sm:grid-cols-2">
          <Field label="Style" placeholder="playful, hand-drawn…" problem={problem} name="style" value={style} set={(style) => composing.put({ style })} />
          <Field label="Project" placeholder="your own" list={PROJECTS} autoComplete="off" problem={problem} name="projectId" value={project} set={(project) => composing.put({ project })} />
          <Suspense fallback={null}>{wasOpen && <ProjectList id={PROJECTS} />}</Suspense>
          <Field label="Length, in seconds" isNumber placeholder="any" problem={problem} name="options.duration" value={duration} set={(duration) => composing.put({ duration })} />
          <Field label="Frames each second" isNumber placeholder="any" problem={problem} name="options.fps" value={fps} set={(fps) => composing.put({ fps })} />
        </div>
        <div>
          <p className="mb-1 font-medium">What agents may do by themselves</p>
          {(wasOpen || problem) && (
            <Suspense fallback={null}>
              <Modes mode={mode || 'auto'} choose={(mode) => composing.put({ mode: mode === 'auto' ? '' : mode })} />
              <div className="mt-2">
                <Rules problem={problem} name="permissions.rules" rules={rules} set={(rules) => composing.put({ rules })} />
              </div>
            </Suspense>
          )}
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
