import { expect, test } from 'vitest';
import { LivePage, read } from './live';

const READY = { koda: 1, type: 'ready', duration: 5, fps: 60, time: 0, playing: true };

test('what a hostile page says counts for nothing but numbers within bounds', () => {
  expect(read(READY)).toMatchObject({ type: 'ready', timeline: { duration: 5, fps: 60 } });
  for (const said of [
    null, 'ready', { ...READY, koda: 2 }, { ...READY, duration: NaN }, { ...READY, duration: 0 }, { ...READY, fps: 1e9 },
    { ...READY, duration: '5' }, { koda: 1, type: 'state', time: -1 }, { koda: 1, type: 'state', time: Infinity }, { koda: 1, type: 'accept' },
  ]) // prettier-ignore
    expect(read(said)).toBeUndefined();
  expect(read({ koda: 1, type: 'state', time: 1, playing: 'yes' })).toMatchObject({ type: 'state', time: 1, playing: false });
  expect(read({ koda: 1, type: 'error', message: 'x'.repeat(9999) })).toMatchObject({ type: 'error', problem: 'x'.repeat(500) });
  for (const message of [{ toString: 1 }, ['x'], 7, null, undefined])
    expect(read({ koda: 1, type: 'error', message })).toEqual({ type: 'error', id: undefined, problem: '' });
});

test('a page that never stops talking is shown once a frame, as it is by then', () => {
  const frame = {} as Window;
  const frames: (() => void)[] = [];
  const page = new LivePage(() => frame, 'http://here', (told) => frames.push(told));
  const seen: number[] = [];
  page.watch(() => seen.push(page.shown.time));
  const tell = (data: object) => page.hear({ source: frame, origin: 'http://here', data: { koda: 1, ...data } } as unknown as MessageEvent);
  tell(READY);
  for (let time = 1; time <= 1000; time += 1) tell({ type: 'state', time, playing: true });
  tell({ type: 'error', message: 'it broke' });
  expect(seen).toEqual([]);
  expect(frames).toHaveLength(1);
  frames[0]?.();
  expect(seen).toEqual([1000]);
  expect(page.shown.problem).toBe('it broke');
  tell({ type: 'state', time: 7, playing: true });
  expect(frames).toHaveLength(2);
  frames[1]?.();
  expect(seen).toEqual([1000, 7]);
});

test('only the frame that is shown is heard, and only from its origin', () => {
  const frame = {} as Window;
  const page = new LivePage(() => frame, 'http://here', () => {});
  const said = (source: unknown, origin: string) => page.hear({ source, origin, data: READY } as unknown as MessageEvent);
  said({}, 'http://here');
  said(null, 'http://here');
  said(frame, 'http://elsewhere');
  expect(page.shown.timeline).toBeUndefined();
  said(frame, 'http://here');
  expect(page.shown).toMatchObject({ timeline: { duration: 5, fps: 60 }, playing: true });
});

test('of many frames that are sought the last is shown, and none before is shown again', () => {
  const requests: { id: number; time: number }[] = [];
  const frame = { postMessage: (request: { id: number; time: number }) => requests.push(request) } as unknown as Window;
  const page = new LivePage(() => frame, 'http://here', () => {});
  const tell = (data: object) => page.hear({ source: frame, origin: 'http://here', data: { koda: 1, ...data } } as unknown as MessageEvent);
  tell(READY);
  for (const time of [1, 2, 3]) page.seek(time);
  tell({ type: 'state', time: 0.5, playing: true });
  expect(page.shown.time).toBe(3);
  expect(requests.map(({ time }) => time)).toEqual([1]);
  tell({ type: 'state', id: requests[0]?.id, time: 1, playing: false });
  expect(requests.map(({ time }) => time)).toEqual([1, 3]);
  expect(page.shown.time).toBe(3);
  tell({ type: 'error', id: requests[1]?.id, message: 'it broke' });
  expect(page.shown.problem).toBe('it broke');
  page.seek(4);
  tell({ type: 'state', id: requests[2]?.id, time: 4, playing: false });
  expect(page.shown).toMatchObject({ time: 4, playing: false });
});

test('what a page says of a point is taken as a place within bounds and short texts, and only for the question that was asked', async () => {
  const requests: { id: number; do: string }[] = [];
  const frame = { postMessage: (request: { id: number; do: string }) => requests.push(request) } as unknown as Window;
  const page = new LivePage(() => frame, 'http://here', () => {});
  const tell = (data: object) => page.hear({ source: frame, origin: 'http://here', data: { koda: 1, type: 'picked', ...data } } as unknown as MessageEvent);
  const box = { x: 1, y: -2, width: 3, height: 4, more: 1 };
  const first = page.pick(10, 20);
  tell({ id: 99, box, text: 'another' });
  tell({ id: requests[0]?.id, box, text: 'x'.repeat(9999), component: 7, source: 'src/App.tsx:3', more: 1 });
  expect(await first).toEqual({ box: { x: 1, y: -2, width: 3, height: 4 }, text: 'x'.repeat(500), component: '', source: 'src/App.tsx:3' });
  for (const wrong of [undefined, { ...box, width: 0 }, { ...box, x: 1e9 }, { ...box, y: '1' }, 'box']) {
    const found = page.pick(0, 0);
    tell({ id: requests.at(-1)?.id, box: wrong, text: 'x' });
    expect(await found).toBeUndefined();
  }
});

/** A page's frame that keeps what it is told. */
function framed() {
  const requests: Record<string, unknown>[] = [];
  const frame = { postMessage: (request: Record<string, unknown>) => requests.push(request) } as unknown as Window;
  const hear = (page: LivePage, data: object) => page.hear({ source: frame, origin: 'http://here', data: { koda: 1, ...data } } as unknown as MessageEvent);
  return { frame, requests, hear };
}

test('a page in the place of another goes on at its time, as it was played', () => {
  const { frame, hear } = framed();
  const before = new LivePage(() => frame, 'http://here', () => {});
  hear(before, READY);
  const how = { rate: 0.5, from: 1, to: 2, loop: true };
  before.play(how);
  hear(before, { type: 'state', time: 1.5, playing: true });
  const renewed = framed();
  const page = new LivePage(() => renewed.frame, 'http://here', () => {}, { before });
  expect(page.shown).toMatchObject({ timeline: { duration: 5, fps: 60 }, time: 1.5, playing: true });
  renewed.hear(page, READY);
  expect(renewed.requests).toMatchObject([{ do: 'seek', time: 1.5 }, { do: 'play', ...how }]);
});

test('what is told before it is there is carried out then, and one that stood stands', () => {
  const { frame, hear } = framed();
  const before = new LivePage(() => frame, 'http://here', () => {});
  hear(before, READY);
  const renewed = framed();
  const page = new LivePage(() => renewed.frame, 'http://here', () => {}, { before });
  page.seek(3);
  page.pause();
  expect(renewed.requests).toEqual([]);
  expect(page.shown).toMatchObject({ time: 3, playing: false });
  renewed.hear(page, READY);
  expect(renewed.requests).toMatchObject([{ do: 'seek', time: 3 }]);
  expect(page.shown).toMatchObject({ time: 3, playing: false });
});

test('where nothing is to move by itself a page stands once it is there, until somebody has it play', () => {
  const { frame, requests, hear } = framed();
  const page = new LivePage(() => frame, 'http://here', () => {}, { rests: () => true });
  hear(page, READY);
  expect(requests).toMatchObject([{ do: 'pause' }]);
  expect(page.shown.playing).toBe(false);
  page.play({ rate: 1, from: 0, to: 5, loop: true });
  hear(page, READY); // it began anew, since it was written on
  expect(page.shown.playing).toBe(true);
  expect(requests).toHaveLength(2);
});

test('a page is muted where it can be, and so is the one in its place', () => {
  const requests: object[] = [];
  const frame = { postMessage: ({ koda: _, ...request }: { koda: number }) => requests.push(request) } as unknown as Window;
  const open = (before?: LivePage) => {
    const page = new LivePage(() => frame, 'http://here', (told) => told(), { before });
    const tell = (data: object) => page.hear({ source: frame, origin: 'http://here', data: { ...READY, ...data } } as unknown as MessageEvent);
    return { page, tell };
  };
  const { page, tell } = open();
  tell({});
  expect(page.shown).toMatchObject({ mutes: false, muted: false });
  tell({ mutes: true });
  page.mute(true);
  expect(page.shown).toMatchObject({ mutes: true, muted: true });
  expect(requests).toEqual([{ id: 1, do: 'sound', muted: true }]);
  tell({ mutes: true }); // it began anew
  expect(requests.at(-1)).toEqual({ id: 2, do: 'sound', muted: true });
  const next = open(page);
  next.tell({ mutes: true });
  expect(requests.filter((each) => 'muted' in each)).toHaveLength(3);
  next.page.mute(false);
  expect(requests.at(-1)).toMatchObject({ do: 'sound', muted: false });
});
