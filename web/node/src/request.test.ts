import { expect, test } from 'vitest';
import type { Given } from './context';
import { type AnimationData, askedFor, filesOf, requestOf } from './request';
import type { Value } from './values';

const DATA: AnimationData = { plugin: 'animation-generator', prompt: ' A ball ', settings: { 'options.duration': 5, 'render.format': 'webm' } };
const given = (handle: string, value: Value | undefined, source = 'n1'): Given => ({
  handle,
  source,
  sourceHandle: 'out',
  name: 'Something',
  plugin: 'words',
  data: { plugin: 'words' },
  value,
});
const words = (text: string): Value => ({ type: 'text', text });

test('settings stand at their places, and words that come in before those that were typed', () => {
  expect(requestOf(DATA, [])).toEqual({ prompt: 'A ball', options: { duration: 5 }, render: { format: 'webm' } });
  const told = requestOf(DATA, [given('prompt', words('A kite\n')), given('style', words('calm'))]);
  expect([told.prompt, told.style]).toEqual(['A kite', 'calm']);
  expect(requestOf(DATA, [given('prompt', words('  ')), given('style', words(' '))])).toEqual(requestOf(DATA, []));
});

test('what is not there yet does not go along', () => {
  const film: Value = { type: 'video', name: 'A ball', url: '/v1/sessions/ses_1/video?job=job_1' };
  const coming = [given('assets', undefined), given('assets', film, 'n2'), given('assets', words('no file'), 'n3')];
  expect(filesOf(coming).map(({ source }) => source)).toEqual(['n2']);
});

test('the same request is told from another one', () => {
  const body = requestOf(DATA, []);
  const film = [given('assets', { type: 'video', name: 'A ball', url: '/a' })];
  expect(askedFor(body, film)).toBe(askedFor(requestOf({ ...DATA, collapsed: true }, []), [given('assets', { type: 'video', name: 'A ball', url: 'blob:2' })]));
  expect(askedFor(body, film)).not.toBe(askedFor(body, []));
  expect(askedFor(body, film)).not.toBe(askedFor({ ...body, prompt: 'A kite' }, film));
});
