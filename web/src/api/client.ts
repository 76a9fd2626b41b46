/** The API, as its description types it (`npm run schema`), with its problems in its own words. */
import { ask as asked, type Ask, commandKey, Problem } from '../../node/src/http';
import type { components } from './schema';

export { newKey, Problem } from '../../node/src/http';

export type Schemas = components['schemas'];
export type SessionView = Schemas['SessionView'];
export type SessionSummary = Schemas['SessionSummary'];
export type NodeState = Schemas['NodeState'];
export type Envelope = Schemas['Envelope'];
export type VersionView = Schemas['VersionView'];

export type CommandName =
  | 'answer'
  | 'accept'
  | 'reject'
  | 'changes'
  | 'plan'
  | 'messages'
  | 'cancel'
  | 'retry'
  | 'render'
  | 'rewind'
  | 'fork'
  | 'permissions'
  | 'budget'
  | `approvals/${string}/${'approve' | 'reject'}`;

const hearing = new Set<(problem: Problem) => void>();

/** Be told of whatever a request of the page did not come to, whoever made it. */
export function onProblem(hear: (problem: Problem) => void): void {
  hearing.add(hear);
}

/** Tell that a request did not come to what it was for. */
export function tellProblem(problem: Problem): void {
  for (const hear of hearing) hear(problem);
}

export async function ask<T>(address: string, how?: Ask): Promise<T> {
  try {
    return await asked<T>(address, how);
  } catch (problem) {
    if (problem instanceof Problem) tellProblem(problem);
    throw problem;
  }
}

/** Take what is not there for what was deleted elsewhere. */
export function unlessGone(problem: unknown): void {
  if (!(problem instanceof Problem && problem.status === 404)) throw problem;
}

const takenBack = new Map<string, number>();

/** Note that something was taken back: said again it is another command, also where the session has not taken either yet. */
export function noteTakenBack(sessionId: string): void {
  takenBack.set(sessionId, (takenBack.get(sessionId) ?? 0) + 1);
}

const forking = new Map<string, number>();
const watchingForks = new Set<() => void>();

export function watchForks(told: () => void): () => void {
  watchingForks.add(told);
  return () => watchingForks.delete(told);
}

/** Whether another session is being made of one just now, which takes a moment. */
export function isForking(sessionId: string): boolean {
  return Boolean(forking.get(sessionId));
}

function noteForking(sessionId: string, by: 1 | -1): void {
  forking.set(sessionId, (forking.get(sessionId) ?? 0) + by);
  for (const told of [...watchingForks]) told();
}

/** Send a command. One that is sent twice for the same state is the same command: a double click does nothing more. */
export async function command(session: { id: string; seq?: number }, name: CommandName, body?: object): Promise<unknown> {
  const times = takenBack.get(session.id);
  const key = commandKey(name, session.seq, body) + (times ? `-${times}` : '');
  if (name === 'fork') noteForking(session.id, 1);
  try {
    return await ask(`/v1/sessions/${session.id}/${name}`, { method: 'POST', body, key });
  } finally {
    if (name === 'fork') noteForking(session.id, -1);
  }
}
