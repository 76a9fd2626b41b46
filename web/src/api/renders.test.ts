import { expect, test } from 'vitest';
import {
  addressIn,
  addressOf,
  batchWords,
  canAgain,
  endedWords,
  isBatchOver,
  merged,
  nameOf,
  optionsIn,
  orderOf,
  overStates,
  pageKept,
  pictureWords,
  progressOf,
  progressWords,
  type RenderSummary,
  type RenderView,
  shownIn,
  stateWords,
  summaryOf,
  warningsIn,
} from './renders';

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

const view: RenderView = {
  id: 'job_1',
  projectId: 'prj_1',
  status: 'running',
  bundle: 'ab'.repeat(32),
  entry: 'film.html',
  request: { size: [640, 360], preset: 'youtube', props: '{"name": "Zo\\u00eb"}' },
  spec: null,
  progress: { percent: 40, stage: 'capturing', framesDone: 4, framesTotal: 10, secondsLeft: 3, watchableS: 2 },
  result: null,
  error: null,
  createdAt: '2026-01-01T00:00:00Z',
  updatedAt: '2026-01-01T00:00:01Z',
  stateUrl: '/v1/renders/job_1',
  eventsUrl: '/v1/renders/job_1/events',
};
const spec = { width: 640, height: 360, scale: 2, fps: '30000/1001', durationS: 2, format: 'webm', alpha: true, crf: 18, effort: 'fast', seed: 7, props: '{}', audio: [{}, {}], strict: false };

test('a page as it is read alone is told as in a list', () => {
  expect(pictureWords(summaryOf({ ...view, spec, result: { fileSize: 12_000 } }))).toEqual(['Page', '1280×720', '29.97 fps', 'webm', '2 s', '12 kB']);
  expect(progressWords(summaryOf(view))).toEqual(['4 of 10 frames', 'about 3 s left']);
  expect(pictureWords(summaryOf(view))).toEqual(['Page']);
  expect(nameOf(summaryOf({ ...view, row: 3 }))).toBe('film.html, row 3');
  expect(stateWords(summaryOf({ ...view, status: 'succeeded' }))).toBe('Done');
  expect(progressOf(view)).toMatchObject({ jobId: 'job_1', percent: 40, watchableS: 2 });
  expect(progressOf({ ...view, status: 'succeeded' })).toBeUndefined();
});

test('what it is rendered with is told as it was asked for, and then as it came to', () => {
  const of = (more: Partial<RenderView>) => Object.fromEntries(optionsIn({ ...view, ...more }));
  expect(of({})).toEqual({ Page: 'film.html', Bundle: 'abababababab', Preset: 'youtube', Viewport: '640 × 360', Format: 'mp4', Data: '{"name":"Zoë"}' });
  const { Viewport, Quality, Sound, Seed, Format, Data, ...rest } = of({ spec });
  expect([Viewport, Quality, Sound, Seed, Format, Data]).toEqual(['640 × 360 at 2×', 'CRF 18', '2 files', '7', 'webm, transparent', undefined]);
  expect(rest).toMatchObject({ 'Frames each second': '29.97', Length: '2 s', 'Errors of the page': 'It goes on' });
  expect(of({ request: { bitrateKbps: 800 } }).Quality).toBe('800 kbit/s');
  expect(warningsIn({ ...view, result: { warnings: ['a font did not come'] } })).toEqual(['a font did not come']);
  expect(warningsIn(view)).toEqual([]);
});

test('a batch is told by how much of it is where', () => {
  const batch = { id: 'bat_1', renders: 10, queued: 3, running: 2, succeeded: 4, failed: 1, cancelled: 0, rendersUrl: '' };
  expect(batchWords(batch)).toEqual({ words: '4 done · 2 under way · 3 waiting · 1 failed', percent: 50 });
  expect([isBatchOver(batch), isBatchOver({ ...batch, queued: 0, running: 0 })]).toEqual([false, true]);
});

test('what is looked for stands in the address beside what is shown', () => {
  expect([addressIn('all', ''), addressIn('done', ''), addressIn('all', 'a b'), addressIn('failed', 'x')]).toEqual(['/renders', '/renders?show=done', '/renders?q=a+b', '/renders?show=failed&q=x']);
});
