/** The API, as its description types it (`npm run schema`), with its problems in its own words. */
import type { components } from './schema';

export type Schemas = components['schemas'];
export type SessionView = Schemas['SessionView'];
export type SessionSummary = Schemas['SessionSummary'];
export type NodeState = Schemas['NodeState'];
export type Envelope = Schemas['Envelope'];
export type VersionView = Schemas['VersionView'];

export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly fields: { field: string; problem: string }[] = [],
  ) {
    super(message);
  }
}

interface Ask {
  method?: string;
  body?: unknown;
  key?: string;
  headers?: Record<string, string>;
  signal?: AbortSignal;
  as?: 'json' | 'blob';
}

export async function ask<T>(path: string, { method = 'GET', body, key, headers = {}, signal, as = 'json' }: Ask = {}): Promise<T> {
  let response: Response;
  try {
    response = await fetch(path, {
      method,
      signal: signal ?? null,
      credentials: 'same-origin',
      headers: {
        ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
        ...(key === undefined ? {} : { 'Idempotency-Key': key }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Problem(0, 'UNREACHABLE', 'The server does not answer. What you typed is kept; try again in a moment.');
  }
  if (response.ok) return (response.status === 204 ? undefined : await response[as]()) as T;
  throw await problemOf(response);
}

export async function problemOf(response: Response): Promise<Problem> {
  const said = (await response.json().catch(() => ({}))) as Partial<Schemas['Problem']>;
  return new Problem(response.status, said.code ?? `HTTP_${response.status}`, said.detail ?? response.statusText, [
    ...(said.fields ?? []),
  ]);
}

/** A key that no other command has; `crypto.randomUUID` is for https alone. */
export function newKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('');
}

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
  | `approvals/${string}/${'approve' | 'reject'}`;

/** Send a command. One that is sent twice for the same state is the same command: a double click does nothing more. */
export function command(session: { id: string; seq?: number }, name: CommandName, body?: object): Promise<unknown> {
  const said = body === undefined ? '' : `-${hash(JSON.stringify(body))}`;
  return ask(`/v1/sessions/${session.id}/${name}`, { method: 'POST', body, key: `web-${name}-${session.seq}${said}` });
}

function hash(text: string): string {
  let found = 5381;
  for (let at = 0; at < text.length; at += 1) found = ((found * 33) ^ text.charCodeAt(at)) >>> 0;
  return found.toString(36);
}
