import { expect, test } from 'vitest';
import { addressOf, canAgain, endedWords, merged, nameOf, orderOf, overStates, pageKept, pictureWords, progressWords, type RenderSummary, shownIn, stateWords } from './renders';

function render(id: string, status: RenderSummary['status'], more: Partial<RenderSummary> = {}): RenderSummary {
  return {
    id,
    kind: 'render',
    projectId: 'prj',
    status,
    bundle: 'abcdef0123456789',
    percent: 0,
    error: null,
    createdAt: '2026-01-01T00:00:00Z',
    updatedAt: '2026-01-01T00:00:00Z',
    stateUrl: `/v1/renders/${id}`,
    ...more,
  } as RenderSummary;
}

test('what the address asks for is known, or all', () => {
  expect(['show=done', 'show=running&x', '', 'show=toString', 'show=late'].map(shownIn)).toEqual(['done', 'running', 'all', 'all', 'all']);
  expect(overStates('all')).toEqual(['succeeded', 'failed', 'cancelled']);
  expect(overStates('running')).toEqual([]);
});

test('what is under way comes first, and what is in both lists is where the later one says', () => {
  const later = { updatedAt: '2026-01-01T00:00:09Z' };
  const found = merged(
    [render('a', 'running'), render('b', 'running'), render('c', 'running', later)],
    [
      render('b', 'succeeded', later),
      render('c', 'failed'), // taken up again since
      render('d', 'failed', { createdAt: '2026-01-02T00:00:00Z' }),
    ],
  );
  expect(found.map(({ id, status }) => `${id} ${status}`)).toEqual(['a running', 'c running', 'd failed', 'b succeeded']);
});

test('a render is called by its session, a page by its file', () => {
  expect(nameOf(render('a', 'queued', { sessionId: 's', title: 'Bounce' }))).toBe('Bounce');
  expect(nameOf(render('a', 'queued', { entry: 'index.html' }))).toBe('Page abcdef01');
  expect(nameOf(render('a', 'queued', { entry: 'card.html', row: 3 }))).toBe('card.html, row 3');
});

test('where it is and how far is told in words, as far as it is known', () => {
  expect(['waiting', 'capturing', 'new one', null].map((stage) => stateWords(render('a', 'running', { stage })))).toEqual([
    'Waits for a machine',
    'Taking frames',
    'new one',
    'Rendering',
  ]);
  expect(stateWords(render('a', 'failed', { stage: 'capturing' }))).toBe('Failed');
  expect(progressWords(render('a', 'running', { percent: 31.4 }))).toEqual(['31 %']);
  expect(progressWords(render('a', 'running', { framesDone: 3, framesTotal: 300, secondsLeft: 12 }))).toEqual([
    '3 of 300 frames',
    'about 12 s left',
  ]);
  expect(progressWords(render('a', 'queued'))).toEqual([]);
  const all = { kind: 'final', width: 1920, height: 1080, fps: 29.97003, format: 'mp4', duration: 5, fileSize: 3_200_000 } as const;
  expect(pictureWords(render('a', 'succeeded', all))).toEqual(['Video', '1920×1080', '29.97 fps', 'mp4', '5 s', '3.2 MB']);
});

test('what is over and no preview is made again', () => {
  expect([render('a', 'failed'), render('a', 'running'), render('a', 'succeeded', { kind: 'preview' })].map(canAgain)).toEqual([true, false, false]);
});

test('with time only the first page is read again, and those after it where something new came', () => {
  const known = { pages: ['newest', 'older'], pageParams: [null, 'place'] };
  expect(pageKept(known, false, null)).toBeUndefined();
  expect(pageKept(known, false, 'place')).toBe('older');
  expect(pageKept(known, false, 'another')).toBeUndefined();
  expect(pageKept(known, true, 'place')).toBeUndefined();
  expect(pageKept(undefined, false, 'place')).toBeUndefined();
});

test('an order whose answer was lost is sent again with its key, and no other order is', () => {
  let made = 0;
  const key = () => `key ${++made}`;
  const cancel = orderOf('cancel', undefined, key);
  expect(orderOf('cancel', cancel, key)).toEqual({ name: 'cancel', key: 'key 1' });
  expect(orderOf('again', cancel, key)).toEqual({ name: 'again', key: 'key 2' });
});

test('what ended since is told once', () => {
  const before = [render('a', 'running'), render('b', 'queued'), render('c', 'succeeded')];
  const now = [render('a', 'succeeded', { sessionId: 's', title: 'Bounce' }), render('b', 'running'), render('c', 'succeeded')];
  expect(endedWords(before, now)).toEqual(['Bounce: Done']);
  expect(endedWords(now, now)).toEqual([]);
});

test('a session deletes its own videos, and a page has none', () => {
  expect(addressOf(render('a', 'succeeded'))).toBe('/v1/renders/a');
  expect(addressOf(render('a', 'succeeded', { sessionId: 'ses_1', kind: 'final' }))).toBe('/v1/sessions/ses_1/finals/a');
});
