import { QueryClient, QueryObserver } from '@tanstack/react-query';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { Problem } from './client';
import { Reach, readAgain, type Standing, Unanswered } from './reach';

/** A server that is looked at. */
function server() {
  const told = { is: 'there' as Standing, looks: 0, isNeedless: false };
  const look = async () => {
    told.looks += 1;
    return told.is;
  };
  return { told, reach: new Reach(look, () => told.isNeedless) };
}

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test('a server that went away is looked at until it is back, and who waits for it goes on once', async () => {
  const { told, reach } = server();
  const back = vi.fn();
  reach.whenBack(back);
  told.is = 'away';
  await reach.check();
  expect(reach.now).toBe('away');
  const waits = reach.back().then(() => 'went on');
  told.is = 'stopping';
  await vi.advanceTimersByTimeAsync(2500);
  expect([reach.now, back.mock.calls.length]).toEqual(['stopping', 0]);
  told.is = 'there';
  await vi.advanceTimersByTimeAsync(2500);
  expect([reach.now, back.mock.calls.length, await waits]).toEqual(['there', 1, 'went on']);
});

test('one that is there is looked at now and then, unless that is known otherwise', async () => {
  const { told, reach } = server();
  await reach.check();
  await vi.advanceTimersByTimeAsync(16_000);
  expect(told.looks).toBe(2);
  told.isNeedless = true;
  await vi.advanceTimersByTimeAsync(120_000);
  expect(told.looks).toBe(2);
});

test('what failed although the server is there has another try, however often it failed at once', async () => {
  const { told, reach } = server();
  const back = vi.fn();
  reach.whenBack(back);
  await Promise.all([reach.doubt(), reach.doubt(), reach.doubt()]);
  expect([told.looks, back.mock.calls.length]).toEqual([1, 0]);
  await vi.advanceTimersByTimeAsync(2500);
  expect(back).toHaveBeenCalledOnce();
});

test('that the server does not answer holds until it is back, and what it refused holds on', async () => {
  const { told, reach } = server();
  const unanswered = new Unanswered();
  const seen = vi.fn();
  unanswered.watch(seen);
  reach.whenBack(unanswered.end);
  const [away, refused, later] = [new Problem(0, 'UNREACHABLE', 'away'), new Problem(409, 'CONFLICT', 'not now'), new Problem(0, 'UNREACHABLE', 'away')];
  unanswered.note(away);
  unanswered.note(refused);
  told.is = 'away';
  await reach.check();
  expect([unanswered.still(away), unanswered.still(null), seen.mock.calls.length]).toEqual([away, undefined, 0]);
  told.is = 'there';
  await vi.advanceTimersByTimeAsync(2500);
  unanswered.note(later);
  expect([unanswered.still(away), unanswered.still(refused), unanswered.still(later), seen.mock.calls.length]).toEqual([undefined, refused, later, 1]);
});

test('what could not be read is read again, and what was refused is not', async () => {
  vi.useRealTimers();
  const client = new QueryClient({ defaultOptions: { queries: { retry: false } } });
  const reads = { away: 0, refused: 0 };
  const ends = (['away', 'refused'] as const).map((name) => {
    const queryFn = async () => {
      reads[name] += 1;
      if (name === 'refused') throw new Problem(404, 'NOT_FOUND', 'not there');
      if (reads.away === 1) throw new Problem(0, 'UNREACHABLE', 'away');
      return 'here';
    };
    return new QueryObserver(client, { queryKey: [name], queryFn }).subscribe(() => {});
  });
  await vi.waitFor(() => expect(client.isFetching()).toBe(0));
  await readAgain(client);
  expect([client.getQueryData(['away']), reads]).toEqual(['here', { away: 2, refused: 1 }]);
  ends.forEach((end) => end());
});
