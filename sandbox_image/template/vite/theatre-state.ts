// Saves what Theatre's editor edits, in the live preview, to src/theatre/state.json.
//
// The page posts the whole on-disk state to `__koda/theatre-state` under its base, which takes a link that may edit. The
// file is replaced in one step, and the page that wrote it is not reloaded for it.
import { randomUUID } from 'node:crypto';
import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import path from 'node:path';
import type { Plugin } from 'vite';

const MAX_BYTES = 8 * 1024 * 1024;
const MAX_DEPTH = 100;
const HALF_OF_A_PAIR = /\p{Surrogate}/u;

class Refused extends Error {
  constructor(readonly status: number, message: string) {
    super(message);
  }
}

async function readBody(request: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  let bytes = 0;
  for await (const part of request as AsyncIterable<Buffer>) {
    bytes += part.length;
    if (bytes > MAX_BYTES) throw new Refused(413, `a Theatre state has at most ${MAX_BYTES} bytes`);
    parts.push(part);
  }
  return Buffer.concat(parts).toString('utf8');
}

/** Refuse what could be written here and not be stored with the session. */
function refuseUnstorable(state: unknown): void {
  const check = (text: string): void => {
    if (!HALF_OF_A_PAIR.test(text)) return;
    const where = JSON.stringify(text.slice(0, 40));
    throw new Refused(400, `the Theatre state has half of a surrogate pair in ${where}, which is no Unicode; remove it`);
  };
  let level: unknown[] = [state];
  for (let depth = 0; level.length > 0; depth += 1) {
    if (depth === MAX_DEPTH) throw new Refused(400, `the Theatre state has more than ${MAX_DEPTH} levels; nest it less`);
    const below: unknown[] = [];
    for (const each of level) {
      if (typeof each === 'string') check(each);
      if (typeof each !== 'object' || each === null) continue;
      for (const [name, value] of Object.entries(each)) {
        check(name);
        below.push(value);
      }
    }
    level = below;
  }
}

/** The state as it is written, or a refusal that says which field is wrong. */
function checked(text: string): string {
  let state: unknown;
  try {
    state = JSON.parse(text);
  } catch (error) {
    throw new Refused(400, `the Theatre state is not JSON: ${String(error)}`);
  }
  refuseUnstorable(state);
  const { sheetsById, definitionVersion, revisionHistory } = (state ?? {}) as Record<string, unknown>;
  if (typeof sheetsById !== 'object' || sheetsById === null) throw new Refused(422, 'sheetsById must be an object');
  if (typeof definitionVersion !== 'string') throw new Refused(422, 'definitionVersion must be a string such as "0.4.0"');
  if (!Array.isArray(revisionHistory)) throw new Refused(422, 'revisionHistory must be a list');
  return `${JSON.stringify(state, null, 2)}\n`;
}

/** The plugin. `root` is the project's absolute path; it does nothing in a build. */
export function theatreState(root: string): Plugin {
  const file = path.join(root, 'src', 'theatre', 'state.json');
  let saved: string | undefined;
  return {
    name: 'koda:theatre-state',
    apply: 'serve',
    configureServer(server) {
      const route = `${server.config.base.replace(/\/$/, '')}/__koda/theatre-state`;
      server.middlewares.use((request, response, next) => {
        const url = (request as { originalUrl?: string }).originalUrl ?? request.url ?? '';
        if (url.split('?')[0] !== route) return next();
        const answer = (status: number, body: object): void => {
          response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
        };
        if (request.method !== 'POST') return answer(405, { error: 'POST the Theatre state here' });
        // a form cannot send this type to another origin without asking first
        if (!request.headers['content-type']?.startsWith('application/json'))
          return answer(415, { error: 'content-type must be application/json' });
        readBody(request)
          .then((body) => {
            const text = checked(body);
            const draft = `${file}.${randomUUID()}.tmp`;
            try {
              writeFileSync(draft, text, { flush: true });
              saved = text;
              renameSync(draft, file);
            } finally {
              rmSync(draft, { force: true });
            }
            answer(200, { bytes: Buffer.byteLength(text) });
          })
          .catch((error: unknown) => answer(error instanceof Refused ? error.status : 500, { error: String(error) }));
      });
    },
    hotUpdate(change) {
      if (change.file !== file.split(path.sep).join('/') || saved === undefined) return;
      return readFileSync(file, 'utf8') === saved ? [] : undefined;
    },
  };
}
