import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { Koda } from './koda';

const MINUTE_MS = 60_000;
let asked = 0;

beforeEach(() => {
  vi.useFakeTimers();
  asked = 0;
  vi.stubGlobal('location', { href: 'https://canvas.example/', origin: 'https://canvas.example' });
  vi.stubGlobal('fetch', () => {
    asked += 1;
    return Promise.resolve(Response.json({ videoUrl: `/m/${asked}/video`, thumbnailUrl: `/m/${asked}/thumbnail` }));
  });
});

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

test('a video whose address came to its end goes on with the one that came since, for its picture', async () => {
  const koda = new Koda({ base: 'https://koda.example' });
  koda.media('s', 'video', 'j');
  await vi.advanceTimersByTimeAsync(1);
  const shown = koda.media('s', 'video', 'j');
  expect(shown).toBe('https://koda.example/m/1/video');
  await vi.advanceTimersByTimeAsync(46 * MINUTE_MS);
  koda.media('s', 'thumbnail', 'j');
  await vi.advanceTimersByTimeAsync(30 * MINUTE_MS);
  expect(koda.renew('s', 'j', shown)).toBe(true);
  const next = koda.media('s', 'video', 'j');
  expect(next).toBe('https://koda.example/m/2/video');
  expect(koda.renew('s', 'j', next)).toBe(false); // it is fresh, so the video itself is broken
});

test('a video is downloaded from an address that is fresh', async () => {
  const koda = new Koda({ base: 'https://koda.example' });
  expect(await koda.download('s', 'j')).toBe('https://koda.example/m/1/video?download=true');
  await vi.advanceTimersByTimeAsync(76 * MINUTE_MS);
  expect(await koda.download('s', 'j')).toBe('https://koda.example/m/2/video?download=true');
  expect(await new Koda().download('s', 'j')).toBe('/v1/sessions/s/video?job=j&download=true');
  expect(new Koda().renew('s', 'j', 'x')).toBe(false);
});

test('what is begun on one canvas is not under way on another one with nodes of the same names', () => {
  const koda = new Koda();
  void koda.makingsOn('one').begin('a', () => new Promise(() => {}));
  expect([koda.makingsOn('one').of('a').busy, koda.makingsOn('two').of('a').busy]).toEqual([true, false]);
});

test('whoever wants to hear of it is told that a key is not known any more', async () => {
  vi.stubGlobal('fetch', async () => Response.json({ code: 'UNAUTHENTICATED', detail: 'a key is needed' }, { status: 401 }));
  const hear = vi.fn();
  await expect(new Koda({ hear }).upload(new File([], 'a.png'))).rejects.toThrow('a key is needed');
  expect(hear.mock.calls.map(([{ status }]) => status)).toEqual([401]);
});
