/** How the server is, in words: for everybody whether it takes work, and for who runs it how all of it is. */
import type { Schemas } from './client';
import { ago, figure as inFigures } from './dates';
import type { Line } from './usage';
import { bytes } from './words';

export type Cluster = Schemas['ClusterReport'];
type Capacity = Schemas['Capacity'];

/** A name, and what there is to say. */
export type Told = readonly [name: string, words: string];

/** Whether it takes work, or else what is wrong with it. */
export function readyWords({ ready, parts }: Schemas['Readiness']): string {
  if (ready) return 'It takes work.';
  const wrong = Object.entries(parts).filter(([, words]) => words !== 'ok');
  return `It takes no work now: ${wrong.map(([name, words]) => (name === 'draining' ? 'it is stopping' : `${name}: ${words}`)).join('; ')}.`;
}

export function agentsWords({ director, models = [] }: Schemas['Capabilities']): string {
  return director === 'offline' ? 'The built-in director; no model is connected' : models.join(', ');
}

/** What is taken, of how much there is. */
export function capacitiesOf({ browsers, room }: Cluster): Line[] {
  return [capacity('Browsers that render', browsers), capacity('Room for animations', room)].filter((each) => each !== undefined);
}

function capacity(name: string, of: Capacity | null | undefined): Line | undefined {
  if (!of?.total) return undefined;
  const used = of.used ?? 0;
  return { name, share: used / of.total, words: `${figure(used)} of ${figure(of.total)}`, held: '', instead: '' };
}

/** What is under way, waits and rests. */
export function clusterLines({ at, nodes, lostNodes, comingNodes, problem, sessions, renders, owed, sandboxes, database, janitor, janitorProblem }: Cluster): Told[] {
  const looked = janitor?.wokeAt;
  const lines: Told[] = [
    ['Machines', nodes ? [machines(nodes), some(lostNodes, 'lost'), some(comingNodes, 'coming')].filter(Boolean).join(', ') : (problem ?? 'not known')],
    ['Animations', [`${sessions.active ?? 0} awake`, `${sessions.asleep ?? 0} asleep`, some(sessions.owing, 'with work to do'), some(sessions.closing, 'being removed')].filter(Boolean).join(', ')],
    ['Renders', [`${renders.running ?? 0} under way`, `${renders.queued ?? 0} not begun`, some(renders.waiting, 'pieces that wait for a browser')].filter(Boolean).join(', ')],
    ['Sandboxes', String(sandboxes ?? 0)],
    ['Left alone', owed.count ? `${owed.count} with work that nobody does${owed.since ? `, since ${ago(owed.since, Date.parse(at))}` : ''}` : ''],
    ['Database', [database.backend, database.sizeBytes != null && bytes(database.sizeBytes), some(database.failures, 'failures')].filter(Boolean).join(', ')],
    ['Janitor', janitor ? (looked ? `looked for work ${ago(looked, Date.parse(at))}` : 'has not looked for work yet') : janitorProblem === problem ? '' : (janitorProblem ?? '')],
  ];
  return lines.filter(([, words]) => words);
}

/** Machines of a cluster: each with what it does, and why it gets no more work where that is so. */
export function nodeWords({ status, unfit, group }: Schemas['NodeReport']): string {
  const why = unfit === 'full' ? 'its disk is full' : unfit === 'outdated' ? 'its version is too old' : '';
  return [group, { working: 'working', idle: 'at rest', draining: 'leaving' }[status], why].filter(Boolean).join(', ');
}

function machines(nodes: readonly Schemas['NodeReport'][]): string {
  const count = (which: Schemas['NodeReport']['status']) => nodes.filter(({ status }) => status === which).length;
  return `${nodes.length} (${[some(count('working'), 'working'), some(count('idle'), 'at rest'), some(count('draining'), 'leaving')].filter(Boolean).join(', ')})`;
}

function some(count: number | null | undefined, words: string): string {
  return count ? `${count} ${words}` : '';
}

function figure(value: number): string {
  return inFigures(Number(value.toFixed(1)));
}
