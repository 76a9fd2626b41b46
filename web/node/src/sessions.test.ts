import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { Problem } from './http';
import type { NodeSession, Progress, SessionEvent } from './session';
import { Sessions } from './sessions';

const at = (seq: number): NodeSession => ({
  id: 'ses_1',
  nodeId: 'nod_1',
  status: 'active',
  seq,
  createdAt: '2026-01-01T00:00:00Z',
  state: { phase: 'executing', owes: 'execute', prompt: 'A ball' },
});

/** One server, as its answers and its stream are seen. */
function server() {
  const told = {
    seq: 1,
    reads: 0,
    problem: undefined as Problem | undefined,
    followed: [] as number[],
    far: async (): Promise<Progress | undefined> => undefined,
    hear: undefined as ((event: SessionEvent) => void) | undefined,
  };
  const read = async () => {
    told.reads += 1;
    if (told.problem) throw told.problem;
    return at(told.seq);
  };
  const follow = (_: string, after: number, listener: (event: SessionEvent) => void) => {
    told.followed.push(after);
    told.hear = listener;
    return () => (told.hear = undefined);
  };
  return { told, sessions: new Sessions({ follow }, read, 1000, () => told.far()) };
}

const event = (type: string, data = {}): SessionEvent => ({ streamId: 'ses_1', seq: 2, type, data });

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test('a session that many nodes show is read once and followed from where it was', async () => {
  const { told, sessions } = server();
  for (let at = 0; at < 3; at += 1) sessions.watch('ses_1', () => {});
  await vi.advanceTimersByTimeAsync(10);
  expect([told.reads, told.followed]).toEqual([1, [1]]);
  expect(sessions.seen('ses_1').session?.seq).toBe(1);
  expect(sessions.seen('ses_2')).toBe(sessions.seen(undefined));
});

test('a node that is out of sight for a while has lost nothing', async () => {
  const { told, sessions } = server();
  const leave = sessions.watch('ses_1', () => {});
  await vi.advanceTimersByTimeAsync(10);
  leave();
  await vi.advanceTimersByTimeAsync(500);
  told.hear?.(event('thinking', { message: 'Writing' }));
  const again = sessions.watch('ses_1', () => {});
  expect([sessions.seen('ses_1').thinking, told.followed.length]).toEqual(['Writing', 1]);
  again();
  await vi.advanceTimersByTimeAsync(2000);
  expect(told.hear).toBeUndefined();
  told.seq = 7;
  sessions.watch('ses_1', () => {});
  expect(sessions.seen('ses_1').session?.seq).toBe(1); // what is known is shown at once
  await vi.advanceTimersByTimeAsync(200);
  expect([sessions.seen('ses_1').session?.seq, told.followed.at(-1)]).toEqual([7, 7]);
});

test('thoughts and progress are taken from events, and the rest is read anew', async () => {
  const { told, sessions } = server();
  const seen = vi.fn();
  sessions.watch('ses_1', seen);
  await vi.advanceTimersByTimeAsync(10);
  told.hear?.(event('render_progress', { jobId: 'job_1', percent: 40, stage: 'capturing' }));
  expect([sessions.seen('ses_1').progress?.percent, told.reads]).toEqual([40, 1]);
  told.seq = 3;
  told.hear?.(event('render_complete'));
  await vi.advanceTimersByTimeAsync(200);
  expect([sessions.seen('ses_1').progress, sessions.seen('ses_1').session?.seq, told.reads]).toEqual([undefined, 3, 2]);
});

test('what is gone is not asked for again, and a server that is away is', async () => {
  const { told, sessions } = server();
  told.problem = new Problem(0, 'UNREACHABLE', 'away');
  sessions.watch('ses_1', () => {});
  await vi.advanceTimersByTimeAsync(10);
  expect(sessions.seen('ses_1').problem?.message).toBe('away');
  told.problem = undefined;
  await vi.advanceTimersByTimeAsync(4000);
  expect(sessions.seen('ses_1').session?.seq).toBe(1);
  expect(sessions.seen('ses_1').problem).toBeUndefined();
  told.hear?.(event('gone'));
  expect(sessions.seen('ses_1').gone).toBe(true);
  const { reads } = told;
  sessions.watch('ses_1', () => {});
  await vi.advanceTimersByTimeAsync(10_000);
  expect(told.reads).toBe(reads);
});

test('one that was deleted and is back is shown and followed again', async () => {
  const { told, sessions } = server();
  sessions.watch('ses_1', () => {});
  await vi.advanceTimersByTimeAsync(10);
  told.hear?.(event('gone'));
  told.seq = 4;
  sessions.reread('ses_1');
  await vi.advanceTimersByTimeAsync(200);
  expect([sessions.seen('ses_1').gone, sessions.seen('ses_1').session?.seq, told.followed]).toEqual([false, 4, [1, 4]]);
});

test('how far a render is, is known before anything is told of it, and what is told meanwhile is newer', async () => {
  const { told, sessions } = server();
  told.far = async () => ({ jobId: 'job_1', percent: 0, stage: 'waiting' });
  sessions.watch('ses_1', () => {});
  await vi.advanceTimersByTimeAsync(10);
  expect(sessions.seen('ses_1').progress?.stage).toBe('waiting');
  told.hear?.(event('state_change', { phase: 'plan', owes: null }));
  expect(sessions.seen('ses_1').progress).toBeUndefined();
  const other = server();
  let answer = (_: Progress) => {};
  other.told.far = () => new Promise((done) => (answer = done));
  other.sessions.watch('ses_1', () => {});
  await vi.advanceTimersByTimeAsync(10);
  other.told.hear?.(event('render_complete'));
  answer({ jobId: 'job_1', percent: 90, stage: 'capturing' });
  await vi.advanceTimersByTimeAsync(10);
  expect(other.sessions.seen('ses_1').progress).toBeUndefined();
});
