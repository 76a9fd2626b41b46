import { afterEach, expect, test, vi } from 'vitest';
import { follow } from './following';

afterEach(() => vi.unstubAllGlobals());

function answering(...answers: Response[]) {
  const asked: (string | null)[] = [];
  vi.stubGlobal('fetch', async (_: string, how: RequestInit) => {
    asked.push(new Headers(how.headers).get('Last-Event-ID'));
    return answers.shift() ?? new Response('', { status: 404 });
  });
  return asked;
}

test('a connection that breaks comes back after what was heard, until the last', async () => {
  vi.useFakeTimers({ shouldAdvanceTime: true, advanceTimeDelta: 500 });
  try {
    const asked = answering(new Response('id: 5\nevent: output\ndata: {"text":"a"}\n\n'), new Response('id: 9\nevent: end\ndata: {}\n\nid: 10\nevent: output\ndata: {}\n\n'));
    const heard: string[] = [];
    await follow('/x', { heard: ({ event }) => (heard.push(event), event === 'end') }, new AbortController().signal);
    expect(heard).toEqual(['output', 'end']);
    expect(asked).toEqual([null, '5']);
  } finally {
    vi.useRealTimers();
  }
});

test('what is not there is not asked for again', async () => {
  const asked = answering(Response.json({ code: 'SANDBOX_NOT_FOUND', detail: 'there is none' }, { status: 404 }));
  const said: string[] = [];
  await follow('/x', { heard: () => undefined, refused: ({ message }) => said.push(message) }, new AbortController().signal);
  expect(said).toEqual(['there is none']);
  expect(asked).toHaveLength(1);
});
