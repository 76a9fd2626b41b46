import { expect, test, vi } from 'vitest';
import { command, type NodeState } from './client';
import { takeBack, type Unread, unreadOf, wordsAfter } from './unread';

const said = (id: string, binding = false): Unread => ({ id, words: 'make it red', notes: [], told: 'make it red', binding, at: '2026-01-01T00:00:00Z' });

test('what the agents go on because of is not taken back any more', () => {
  const state = { unread: [said('cmd_1', true), said('cmd_2')] } as unknown as NodeState;
  expect(unreadOf(state).map(({ said, isFree }) => [said.id, isFree])).toEqual([['cmd_1', false], ['cmd_2', true]]);
  expect(unreadOf({} as NodeState)).toEqual([]);
});

test('a message is taken back once for one state, however often that is pressed', async () => {
  const asked: [string, string | undefined, unknown][] = [];
  vi.stubGlobal('fetch', (address: string, { method, headers }: RequestInit) => {
    asked.push([address, method, (headers as Record<string, string>)['Idempotency-Key']]);
    return Promise.resolve(new Response('{}', { status: 202 }));
  });
  for (const seq of [7, 7, 9]) await takeBack({ id: 'ses_1', seq }, said('cmd_1'));
  expect(asked).toEqual([7, 7, 9].map((seq) => ['/v1/sessions/ses_1/messages/cmd_1', 'DELETE', `web-takeback-cmd_1-${seq}`]));
});

test('what was taken back and is said again is another command, also before the session has taken either', async () => {
  const keys: unknown[] = [];
  vi.stubGlobal('fetch', (_: string, { headers }: RequestInit) => {
    keys.push((headers as Record<string, string>)['Idempotency-Key']);
    return Promise.resolve(new Response('{}', { status: 202 }));
  });
  const [session, words] = [{ id: 'ses_2', seq: 7 }, { text: 'make it red' }];
  for (let times = 0; times < 2; times += 1) await command(session, 'messages', words);
  await takeBack(session, said('cmd_1'));
  for (let times = 0; times < 2; times += 1) await command(session, 'messages', words);
  const [first, twice, , again, againTwice] = keys;
  expect([first, again]).toEqual([twice, againTwice]);
  expect(first).not.toEqual(again);
});

test('its words are there to be said otherwise, unless something was typed since', () => {
  expect(wordsAfter(' ', said('cmd_1'))).toBe('make it red');
  expect(wordsAfter('and round', said('cmd_1'))).toBe('and round');
});
