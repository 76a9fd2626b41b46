/** What holds for one session: what it may use, what its agents may do, and where it can go back to, in words. */
import { Problem, type Schemas } from './client';
import { numberOf } from './typed';

export type Permissions = Schemas['SessionPermissions'];
export type Rule = Permissions['rules'][number];
export type Point = Schemas['PointView'];
type Budget = Schemas['Budget'];

/** What a budget limits, as it is typed: what was typed, by the limit's name. */
export type Typed = Partial<Record<keyof Budget, string>>;

export const LIMITS: readonly [name: keyof Budget, words: string][] = [
  ['costUsd', 'Models, in dollars'],
  ['tokens', 'Tokens'],
  ['renderMinutes', 'Rendering, in minutes'],
  ['sandboxMinutes', 'Sandboxes, in minutes'],
  ['warnAt', 'Warn from, in %'],
];

export const MODES: readonly [mode: Permissions['mode'], words: string, means: string][] = [
  ['auto', 'Everything', 'but what a rule forbids or asks about'],
  ['ask', 'Ask me first', 'before anything changes'],
  ['plan', 'Plan first', 'nothing changes until a plan was accepted'],
  ['readonly', 'Only look', 'nothing changes'],
];

export const DECISIONS: readonly [decision: Rule['decision'], words: string][] = [
  ['deny', 'Never'],
  ['ask', 'Ask me'],
  ['allow', 'Always'],
];

/** A limit as it is typed; a share is a percentage for people. */
export function typedOf(name: keyof Budget, budget: Budget): string {
  const value = budget[name];
  return value === null || value === undefined ? '' : String(name === 'warnAt' ? Math.round(100 * value) : value);
}

/** Limits as they are sent: what is typed and no number goes as it is, for the server to say so. */
export type Limits = Partial<Record<keyof Budget, number | string | null>>;

/** What is asked for: the limits that were typed and differ from those that hold. One that was emptied is taken away. */
export function budgetOf(typed: Typed, now: Budget = {}): Limits {
  const changed = LIMITS.flatMap(([name]): [name: keyof Budget, limit: number | string | null][] => {
    const text = typed[name]?.trim();
    if (text === undefined || text === typedOf(name, now)) return [];
    if (text === '') return [[name, null]];
    const limit = numberOf(text);
    return [[name, name === 'warnAt' && typeof limit === 'number' ? limit / 100 : limit]];
  });
  return Object.fromEntries(changed);
}

const NUMBER = /'[^']*'|-?\d+(?:,\d{3})*(?:\.\d+)?(?:e[+-]?\d+)?/gi;

/** What a server, which counts shares, refused of a percentage, as it was typed. */
export function inPercent(problem: Problem): Problem {
  const percent = (found: string) => (found.startsWith("'") ? found : `${Number((100 * Number(found.replaceAll(',', ''))).toPrecision(12))}%`);
  const fields = problem.fields.map((each) => (each.field === 'warnAt' ? { ...each, problem: each.problem.replace(NUMBER, percent) } : each));
  return new Problem(problem.status, problem.code, problem.message, fields);
}

/** A rule as people say it. */
export function ruleWords({ decision, tool, path, arguments: given = {} }: Rule): string {
  const where = path ? ` in ${path}` : '';
  const told = Object.entries(given).map(([name, pattern]) => `${name}: ${pattern}`);
  const said = DECISIONS.find(([each]) => each === decision)?.[1] ?? decision;
  return `${said}: ${tool === '*' ? 'any tool' : tool}${where}${told.length > 0 ? `, with ${told.join(', ')}` : ''}`;
}

const SAVED: Record<string, string> = {
  files: 'as files were written',
  todo: 'as a step was done',
  heartbeat: 'while it was worked on',
  preview: 'as the preview was made',
  idle: 'as nothing happened for a while',
  disconnect: 'as everybody had left',
  destroy: 'as the sandbox ended',
};

/** What a point is: of whom or of what, and its words. */
export function pointWords({ kind, agent, role, text }: Point): { who: string; words: string } {
  if (kind === 'head') return { who: 'Left by going back', words: 'As it was just before' };
  if (kind === 'checkpoint') return { who: 'Files saved', words: SAVED[text] ?? text };
  return { who: role === 'user' ? `Said to ${agent ?? 'the agents'}` : (agent ?? 'The agents'), words: text || '…' };
}

/** Whether a point is no more than calls of tools, or what came of them: one of the many small steps of agents at work. */
export function isStep({ kind, text }: Point): boolean {
  return kind === 'message' && /^(\s*(\w+\(\)|\(result\)))+…?$/.test(text);
}
