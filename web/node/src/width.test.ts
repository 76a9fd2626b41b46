import { expect, test } from 'vitest';
import { LEAST_PX, MOST_PX, widthAfter } from './width';

test('keys make a node wider and narrower, in small steps and in large ones, within its bounds', () => {
  const after = (key: string, width: number, shiftKey = false) => widthAfter({ key, shiftKey }, width);
  expect([after('ArrowRight', 420), after('ArrowLeft', 420), after('ArrowRight', 420, true)]).toEqual([440, 400, 520]);
  expect([after('ArrowLeft', LEAST_PX + 1), after('ArrowRight', MOST_PX - 1, true)]).toEqual([LEAST_PX, MOST_PX]);
  expect([after('Home', 420), after('End', 420), after('ArrowUp', 420), after('Enter', 420)]).toEqual([LEAST_PX, MOST_PX, undefined, undefined]);
});
