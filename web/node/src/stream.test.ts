import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { type Link, Stream } from './stream';

interface Asked {
  sessions: string[];
  types: string[];
  say: (text: string) => void;
  aborted: () => boolean;
}

let asked: Asked[];
let status: number;

beforeEach(() => {
  vi.useFakeTimers();
  [asked, status] = [[], 200];
  vi.stubGlobal('fetch', (address: string, { signal }: { signal: AbortSignal }) => {
    const params = new URL(address, 'http://koda').searchParams;
    const [sessions, types] = [params.getAll('sessions'), params.getAll('types')];
    let into: ReadableStreamDefaultController<Uint8Array> | undefined;
    const body = new ReadableStream<Uint8Array>({ start: (found) => void (into = found) });
    signal.addEventListener('abort', () => into?.error(signal.reason));
    asked.push({ sessions, types, say: (text) => into?.enqueue(new TextEncoder().encode(text)), aborted: () => signal.aborted });
    return Promise.resolve(new Response(status === 200 ? body : null, { status }));
  });
});

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

test('a connection in which nothing comes any more is opened anew, from where it was', async () => {
  const stream = new Stream();
  const heard: number[] = [];
  const end = stream.follow('ses_1', 4, ({ seq }) => heard.push(seq));
  await vi.advanceTimersByTimeAsync(100);
  asked[0]?.say('data: {"streamId":"ses_1","seq":5,"type":"message"}\n\n');
  for (let at = 0; at < 8; at += 1) {
    await vi.advanceTimersByTimeAsync(15_000);
    asked[0]?.say(': still here\n\n');
  }
  await vi.advanceTimersByTimeAsync(44_000);
  expect([asked.length, heard, stream.link]).toEqual([1, [5], 'live']);
  await vi.advanceTimersByTimeAsync(3_000);
  expect(asked[0]?.aborted()).toBe(true);
  expect(asked[1]?.sessions).toEqual(['ses_1:5']);
  expect(stream.link).toBe('live');
  end();
  await vi.advanceTimersByTimeAsync(100);
  expect(asked[1]?.aborted()).toBe(true);
});

test('a browser that is back in a network waits for nothing', async () => {
  const stream = new Stream();
  const links: Link[] = [];
  const online = new EventTarget();
  vi.stubGlobal('addEventListener', online.addEventListener.bind(online));
  stream.watch(() => links.push(stream.link));
  status = 503;
  const end = stream.follow('ses_1', 0, () => {});
  await vi.advanceTimersByTimeAsync(20_000);
  const before = asked.length;
  status = 200;
  online.dispatchEvent(new Event('online'));
  await vi.advanceTimersByTimeAsync(1);
  expect([asked.length, links]).toEqual([before + 1, ['lost', 'live']]);
  end();
  await vi.advanceTimersByTimeAsync(100);
});

test('where nothing is followed any more nothing is lost', async () => {
  const stream = new Stream();
  status = 503;
  const end = stream.follow('ses_1', 0, () => {});
  await vi.advanceTimersByTimeAsync(100);
  expect(stream.link).toBe('lost');
  end();
  await vi.advanceTimersByTimeAsync(100);
  expect(stream.link).toBe('connecting');
});

test('more sessions than a connection tells are told in a few, and of too many the first ones', async () => {
  const stream = new Stream();
  const ends = Array.from({ length: 350 }, (_, at) => stream.follow(`ses_${at}`, 0, () => {}));
  await vi.advanceTimersByTimeAsync(100);
  expect(asked.map(({ sessions }) => sessions.length)).toEqual([100, 100, 100]);
  expect(asked[2]?.sessions.at(-1)).toBe('ses_299:0');
  for (const end of ends) end();
  await vi.advanceTimersByTimeAsync(100);
  expect(asked.every(({ aborted }) => aborted())).toBe(true);
});

test('who wants more types of events than others hears those beside them', async () => {
  const ends = [new Stream(), new Stream('', () => ({}), 'same-origin', ['picture_taken'])].map((stream) => stream.follow('ses_1', 0, () => {}));
  await vi.advanceTimersByTimeAsync(100);
  const [usual = [], more] = asked.map(({ types }) => types);
  expect([usual.includes('message'), usual.includes('picture_taken')]).toEqual([true, false]);
  expect(more).toEqual([...usual, 'picture_taken']);
  for (const end of ends) end();
});
