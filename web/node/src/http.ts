/** Requests to a koda server, whose problems come back in its own words. */
import { clock } from './clock';

/** What a server said was wrong; `status` is 0 where none answered. */
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

export interface Ask {
  method?: string;
  /** Sent as JSON, or as it is where it is a form or a file. */
  body?: unknown;
  /** Makes a repeated request the same request. */
  key?: string;
  headers?: Record<string, string>;
  signal?: AbortSignal;
  as?: 'json' | 'blob';
  credentials?: RequestCredentials;
}

export async function ask<T>(
  address: string,
  { method = 'GET', body, key, headers = {}, signal, as = 'json', credentials = 'same-origin' }: Ask = {},
): Promise<T> {
  const isRaw = body instanceof FormData || body instanceof Blob;
  let response: Response;
  const asked = clock.ask();
  try {
    response = await fetch(address, {
      method,
      signal: signal ?? null,
      credentials,
      headers: {
        ...(body === undefined || isRaw ? {} : { 'Content-Type': 'application/json' }),
        ...(key === undefined ? {} : { 'Idempotency-Key': key }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: isRaw ? body : JSON.stringify(body) }),
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Problem(0, 'UNREACHABLE', 'The server does not answer. What you typed is kept; try again in a moment.');
  }
  clock.hear(response.headers.get('Date'), asked);
  if (response.ok) return (response.status === 204 ? undefined : await response[as]()) as T;
  throw await problemOf(response);
}

export async function problemOf(response: Response): Promise<Problem> {
  const said = (await response.json().catch(() => ({}))) as { code?: string; detail?: string; fields?: Problem['fields'] | null };
  return new Problem(response.status, said.code ?? `HTTP_${response.status}`, said.detail ?? response.statusText, [...(said.fields ?? [])]);
}

/** A key that no other command has; `crypto.randomUUID` is for https alone. */
export function newKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** The key of a command: what is sent twice for the same state is the same command, so that a double click does nothing more. */
export function commandKey(name: string, seq: number | undefined, body?: object): string {
  return `web-${name}-${seq}${body === undefined ? '' : `-${hash(JSON.stringify(body))}`}`;
}

function hash(text: string): string {
  let found = 5381;
  for (let at = 0; at < text.length; at += 1) found = ((found * 33) ^ text.charCodeAt(at)) >>> 0;
  return found.toString(36);
}
