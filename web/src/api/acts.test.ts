import { expect, test } from 'vitest';
import { actsHere, has, offer } from './acts';

test('a name is found by the beginnings of its words, in whichever order', () => {
  expect(has('Render 1080p at 60 fps', 'ren 60')).toBe(true);
  expect(has('Render 1080p at 60 fps', '  FPS  render ')).toBe(true);
  expect(has('Render 1080p at 60 fps', 'ender')).toBe(false);
  expect(has('Render 1080p at 60 fps', '')).toBe(true);
});

test('what is not offered any more is not done, though it was chosen before', () => {
  const done: string[] = [];
  const noMore = offer('Share', () => done.push('of the one before'));
  const chosen = actsHere();
  chosen.find(({ words }) => words === 'Share')?.act();
  noMore();
  const over = offer('Share', () => done.push('of the next'));
  for (const { act } of chosen) act();
  expect(done).toEqual(['of the one before']);
  for (const { act } of actsHere()) act();
  over();
  expect([done, actsHere()]).toEqual([['of the one before', 'of the next'], []]);
});
