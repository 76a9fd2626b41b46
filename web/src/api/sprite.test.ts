import { expect, test } from 'vitest';
import { gridOf, placeIn } from './sprite';

test('as many are asked for as a preview surely has, up to fifty', () => {
  expect([0.05, 0.5, 3, 5, 300].map((duration) => gridOf(duration))).toEqual([
    { count: 1, columns: 1, rows: 1 },
    { count: 5, columns: 5, rows: 1 },
    { count: 30, columns: 10, rows: 3 },
    { count: 50, columns: 10, rows: 5 },
    { count: 50, columns: 10, rows: 5 },
  ]);
});

test('each part of the video has the picture that is there', () => {
  const grid = gridOf(3);
  expect(placeIn(grid, 0)).toEqual({ backgroundSize: '1000% 300%', backgroundPosition: '0% 0%' });
  expect(placeIn(grid, 0.5).backgroundPosition).toBe(`${(5 / 9) * 100}% 50%`);
  expect(placeIn(grid, 1).backgroundPosition).toBe('100% 100%');
  expect(placeIn(gridOf(0.1), 0.9)).toEqual({ backgroundSize: '100% 100%', backgroundPosition: '0% 0%' });
});
