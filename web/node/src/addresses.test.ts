import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { Addresses } from './addresses';
import { Problem } from './http';

const HOUR_MS = 3_600_000;

beforeEach(() => vi.useFakeTimers());
afterEach(() => vi.useRealTimers());

function asking(...answers: (number | undefined)[]) {
  let asked = 0;
  const told: string[] = [];
  const addresses = new Addresses(
    async (session, job) => {
      const status = answers[asked];
      asked += 1;
      if (status !== undefined) throw new Problem(status, 'X', '');
      return { videoUrl: `/${session}/${job}/${asked}/video`, thumbnailUrl: `/${session}/${job}/${asked}/thumbnail` };
    },
    (id) => told.push(id),
  );
  return { addresses, told, asked: () => asked };
}

const passes = (ms: number) => vi.advanceTimersByTimeAsync(ms);

test('an address is asked for once, and told of when it is there', async () => {
  const { addresses, told, asked } = asking();
  expect(addresses.of('s', 'j')).toBeUndefined();
  expect(addresses.of('s', 'j')).toBeUndefined();
  await passes(1);
  expect(told).toEqual(['s']);
  expect(addresses.of('s', 'j')?.videoUrl).toBe('/s/j/1/video');
  expect(addresses.of('s', 'other')).toBeUndefined();
  await passes(1);
  expect(asked()).toBe(2);
});

test('an old one is shown until there is another', async () => {
  const { addresses, told } = asking();
  addresses.of('s', 'j');
  await passes(0.8 * HOUR_MS);
  expect(addresses.of('s', 'j')?.videoUrl).toBe('/s/j/1/video');
  await passes(1);
  expect(told).toEqual(['s', 's']);
  expect(addresses.of('s', 'j')?.videoUrl).toBe('/s/j/2/video');
});

test('whoever needs one that is fresh waits for another where it is old', async () => {
  const { addresses, asked } = asking(undefined, undefined, 404);
  expect((await addresses.fresh('s', 'j')).videoUrl).toBe('/s/j/1/video');
  expect((await addresses.fresh('s', 'j')).videoUrl).toBe('/s/j/1/video');
  await passes(HOUR_MS);
  expect((await addresses.fresh('s', 'j')).videoUrl).toBe('/s/j/2/video');
  expect([addresses.of('s', 'j')?.videoUrl, asked()]).toEqual(['/s/j/2/video', 2]);
  await passes(HOUR_MS);
  await expect(addresses.fresh('s', 'j')).rejects.toThrow(Problem);
});

test('one that shows nothing any more is replaced where it is old, and else the video itself is broken', async () => {
  const { addresses } = asking();
  addresses.of('s', 'j');
  await passes(1);
  expect(addresses.renew('s', 'j')).toBe(false);
  await passes(HOUR_MS);
  expect(addresses.renew('s', 'j')).toBe(true);
  expect(addresses.of('s', 'j')).toBeUndefined();
  await passes(1);
  expect(addresses.of('s', 'j')?.videoUrl).toBe('/s/j/2/video');
});

test('where the server does not give one it is asked again after a while, by whoever still shows it', async () => {
  const { addresses, told, asked } = asking(0, 404);
  addresses.of('s', 'j');
  await passes(1);
  expect(addresses.of('s', 'j')).toBeUndefined();
  expect([asked(), told]).toEqual([1, []]);
  await passes(5_000);
  expect(told).toEqual(['s']);
  addresses.of('s', 'j');
  await passes(5_000);
  addresses.of('s', 'j');
  expect(asked()).toBe(2);
  await passes(60_000);
  addresses.of('s', 'j');
  await passes(1);
  expect(addresses.of('s', 'j')?.thumbnailUrl).toBe('/s/j/3/thumbnail');
});
