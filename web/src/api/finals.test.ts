import { expect, test } from 'vitest';
import { canBeTransparent, distinct, finalName, isMadeBy, isPlayed } from './finals';
import type { RenderSummary } from './renders';

function final(id: string, more: Partial<RenderSummary> = {}): RenderSummary {
  return { id, bundle: 'a', format: 'webm', transparent: false, width: 1280, height: 720, fps: 30, ...more } as RenderSummary;
}

test('a finished video is called by its format, size and rate', () => {
  expect(finalName(final('a'))).toBe('webm · 1280 × 720 · 30 fps');
  expect(finalName(final('a', { format: 'mov', transparent: true, fps: 29.97003 }))).toBe('mov, transparent · 1280 × 720 · 29.97 fps');
  expect(finalName({ id: 'a', format: 'gif' } as RenderSummary)).toBe('gif');
});

test('what was rendered once more as it was counts once', () => {
  const finals = [final('c'), final('b', { bundle: 'b' }), final('a'), final('t', { transparent: true })];
  const found = distinct(finals);
  expect(found.map(({ id }) => id)).toEqual(['c', 'b', 't']);
  expect(found.map(({ also }) => also)).toEqual([['a'], [], []]);
  expect(found.filter(isMadeBy('a')).map(({ id }) => id)).toEqual(['c']);
  expect(found.filter(isMadeBy(undefined))).toEqual([]);
});

test('browsers play mp4 and webm, and all but mp4 can be transparent', () => {
  const formats = ['mp4', 'webm', 'mov', 'gif'];
  expect(formats.map(isPlayed)).toEqual([true, true, false, false]);
  expect(formats.map(canBeTransparent)).toEqual([false, true, true, true]);
});
