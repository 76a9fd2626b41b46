import { expect, test, vi } from 'vitest';
import { Problem } from './http';
import { Makings } from './makings';

test('it is begun once in a node, and what came of it is known to whoever looks later', async () => {
  const makings = new Makings();
  const ends: ((problem?: Problem) => void)[] = [];
  const work = vi.fn(() => new Promise<Problem | undefined>((done) => ends.push(done)));
  const first = makings.begin('a', work);
  await makings.begin('a', work);
  void makings.begin('b', work);
  expect([work.mock.calls.length, makings.of('a').busy, makings.of('c').busy]).toEqual([2, true, false]);
  ends[0]?.(new Problem(0, 'UNREACHABLE', 'away'));
  await first;
  expect(makings.of('a')).toMatchObject({ busy: false, problem: { message: 'away' } });
  const again = makings.begin('a', work);
  expect(makings.of('a').problem).toBeUndefined();
  ends[2]?.();
  await again;
  expect(makings.of('a')).toBe(makings.of('c'));
});

test('a mistake leaves nothing under way', async () => {
  const makings = new Makings();
  await expect(makings.begin('a', () => Promise.reject(new Error('a mistake')))).rejects.toThrow('a mistake');
  expect(makings.of('a').busy).toBe(false);
});
