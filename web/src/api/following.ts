/** Events of one thing, such as a process or the files of a sandbox, for as long as somebody looks at it. */
import { problemOf } from '../../node/src/http';
import { SseDecoder, type ServerSentEvent } from '../../node/src/sse';
import { Problem } from './client';

const AGAIN_MS = 2_000;
const MOST_AGAIN_MS = 30_000;

export interface Follower {
  /** Called with each event; true: that was the last. */
  heard: (event: ServerSentEvent) => boolean | void;
  /** Called when the connection is open, also again. */
  opened?: () => void;
  /** Called once, where the server says that there is nothing to follow. */
  refused?: (problem: Problem) => void;
}

/** Follow an address until the signal says not to; a connection that breaks comes back, after what was heard. */
export async function follow(address: string, { heard, opened, refused }: Follower, signal: AbortSignal): Promise<void> {
  let last = '';
  let failures = 0;
  while (!signal.aborted) {
    try {
      const response = await fetch(address, { signal, credentials: 'same-origin', headers: last ? { 'Last-Event-ID': last } : {} });
      if (!response.ok) {
        const problem = await problemOf(response);
        if (response.status < 500 && response.status !== 429) return refused?.(problem);
        throw problem;
      }
      opened?.();
      failures = 0;
      const decoder = new SseDecoder();
      const pieces = response.body?.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const piece = await pieces?.read();
        if (!piece || piece.done || signal.aborted) break;
        for (const event of decoder.feed(piece.value)) {
          last = event.id || last;
          if (heard(event)) {
            await pieces?.cancel();
            return;
          }
        }
      }
    } catch {
      failures += 1;
    }
    if (!signal.aborted) await pause(Math.min(AGAIN_MS * Math.max(1, failures), MOST_AGAIN_MS), signal);
  }
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((done) => {
    const timer = setTimeout(done, ms);
    signal.addEventListener('abort', () => {
      clearTimeout(timer);
      done();
    });
  });
}
