import { X } from 'lucide-react';
import type { ReactNode } from 'react';
import { LAST_DAY, SHOWN, type Status, type When } from '../api/gallery';
import { useLogin } from '../api/hooks';
import { projectWords, useProjects } from '../api/projects';
import { TIMES, timeWords } from '../api/times';
import { Button } from './button';
import type { Seeking } from './gallery';
import { Said } from './said';

const FIELD = 'min-h-10 w-full rounded-xl bg-sunken px-3 text-sm';
/** What is awake counts among what one may have awake. */
const STATUSES: readonly (readonly [Status, string])[] = [
  ['', 'Awake or asleep'],
  ['active', 'Awake'],
  ['suspended', 'Asleep'],
];

const TURNED = 'days-turned';

/** What else one chooses among animations by: their project, whether they are awake, and when they were last changed. */
export function Narrowing({ sought, seek }: Seeking) {
  const { when, from, to, project, status } = sought;
  const projects = useProjects();
  const own = useLogin().data?.user;
  const there = projects.data ?? [];
  const isTurned = Boolean(from && to && to < from);
  const named = there.includes(project) || !project ? there : [...there, project];
  const hasProjects = named.length > 1 || Boolean(project);
  return (
    <div role="group" aria-label="Choose among them" className="grid w-full grid-cols-2 gap-3 sm:flex sm:flex-wrap sm:items-end sm:justify-end">
      {hasProjects && (
        <Named name="Project">
          <select className={`${FIELD} truncate pr-8 sm:max-w-60`} value={project} onChange={({ target }) => seek({ project: target.value })}>
            <option value="">All projects</option>
            {named.map((each) => (
              <option key={each} value={each}>
                {each === own ? 'Your own' : each}
              </option>
            ))}
          </select>
        </Named>
      )}
      <Named name="Now">
        <select className={`${FIELD} pr-8`} value={status} onChange={({ target }) => seek({ status: target.value as Status })}>
          {STATUSES.map(([name, words]) => (
            <option key={name} value={name}>
              {words}
            </option>
          ))}
        </select>
      </Named>
      <Named name="Last changed" className={hasProjects ? 'max-sm:col-span-2' : ''}>
        <select className={`${FIELD} pr-8`} value={when} onChange={({ target }) => seek({ when: target.value as When })}>
          {TIMES.map(([name, words]) => (
            <option key={name} value={name}>
              {words}
            </option>
          ))}
        </select>
      </Named>
      {when === 'own' && (
        <>
          <Named name="From">
            <input type="date" className={FIELD} max={to || LAST_DAY} value={from} onChange={({ target }) => seek({ from: target.value })} />
          </Named>
          <Named name="To">
            <input type="date" className={FIELD} min={from} max={LAST_DAY} value={to} aria-invalid={isTurned} aria-describedby={isTurned ? TURNED : undefined} onChange={({ target }) => seek({ to: target.value })} />
          </Named>
          {isTurned && (
            <p id={TURNED} role="alert" className="col-span-2 w-full text-sm text-bad sm:text-right">
              This is before the day in From: nothing lies between them.
            </p>
          )}
        </>
      )}
      <div className="col-span-2 empty:hidden">
        <Said problem={projects.error} />
      </div>
    </div>
  );
}

function Named({ name, className = '', children }: { name: string; className?: string; children: ReactNode }) {
  return (
    <label className={`block min-w-0 space-y-1 ${className}`}>
      <span className="block text-sm text-muted">{name}</span>
      {children}
    </label>
  );
}

/** That nothing is found, of what is looked for, and the ways out of that. */
export function None({ sought, seek }: Seeking) {
  const { text, show, project, when, status } = sought;
  const own = useLogin().data?.user;
  const words = SHOWN.find(([name]) => name === show)?.[1].toLowerCase();
  const within = project && ` in ${projectWords(project, own)}`;
  const which = [status && `is ${status === 'active' ? 'awake' : 'asleep'}`, when && `changed ${timeWords(sought)}`].filter(Boolean).join(' and ');
  const said = text
    ? `Nothing has “${text}” in its title, prompt or scenes${show === 'all' ? '' : ` among what is ${words}`}${which && `, of what ${which}`}${within && `,${within}`}.`
    : show !== 'all'
      ? `Nothing is ${words}${which && ` of what ${which}`}${within}${which || within ? '' : ' just now'}.`
      : `Nothing ${which || 'is'}${within}.`;
  return (
    <div className="py-16 text-center">
      <p className="wrap-anywhere">{said}</p>
      <div className="mt-4 flex flex-wrap justify-center gap-2">
        {text && (
          <Button onClick={() => seek({ text: '' })}>
            <X aria-hidden className="size-4" /> Clear the search
          </Button>
        )}
        {when && <Button onClick={() => seek({ when: '' })}>Whenever it changed</Button>}
        {status && <Button onClick={() => seek({ status: '' })}>Awake or asleep</Button>}
        {project && <Button onClick={() => seek({ project: '' })}>In all projects</Button>}
        {show !== 'all' && <Button onClick={() => seek({ show: 'all' })}>Show all</Button>}
      </div>
    </div>
  );
}
