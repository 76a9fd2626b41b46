import { expect, test } from 'vitest';
import { has } from './acts';

test('a name is found by the beginnings of its words, in whichever order', () => {
  expect(has('Render 1080p at 60 fps', 'ren 60')).toBe(true);
  expect(has('Render 1080p at 60 fps', '  FPS  render ')).toBe(true);
  expect(has('Render 1080p at 60 fps', 'ender')).toBe(false);
  expect(has('Render 1080p at 60 fps', '')).toBe(true);
});
