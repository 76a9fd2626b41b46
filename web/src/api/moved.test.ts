import { expect, test } from 'vitest';
import { around, beginning, marked, rateOf, shifted } from './moved';

const WHOLE = { rate: 1, from: 0, to: 5, loop: true };

test('the shuttle goes faster with each key, turns around, and begins anew from standing', () => {
  expect([shifted(1, 1, false), shifted(1, 1, true), shifted(2, 1, true), shifted(4, 1, true)]).toEqual([1, 2, 4, 4]);
  expect([shifted(4, -1, true), shifted(-1, -1, true), shifted(-2, 1, true), shifted(-4, -1, false)]).toEqual([-1, -2, 1, -1]);
  expect([rateOf(1, 2), rateOf(0.25, 2), rateOf(2, 4), rateOf(0.5, -1)]).toEqual([2, 0.5, 4, -0.5]);
});

test('a part is marked by its first and its last frame, in any order', () => {
  const begun = marked(undefined, 'in', 60, 300);
  expect(begun).toEqual({ from: 60, to: 300 });
  expect(marked(begun, 'out', 119, 300)).toEqual({ from: 60, to: 120 });
  expect(marked({ from: 60, to: 120 }, 'in', 200, 300)).toEqual({ from: 200, to: 300 });
  expect(marked({ from: 60, to: 120 }, 'out', 10, 300)).toEqual({ from: 0, to: 11 });
  expect(marked({ from: 60, to: 120 }, 'out', 60, 300)).toEqual({ from: 60, to: 61 });
});

test('what is played goes round within its part, or is over at its end', () => {
  const part = { rate: 1, from: 1, to: 2, loop: true };
  expect([around(1.5, part), around(2.25, part), around(0.75, part), around(4.5, part)]).toEqual([1.5, 1.25, 1.75, 1.5]);
  expect([around(2, { ...part, loop: false }), around(1.99, { ...part, loop: false })]).toEqual([undefined, 1.99]);
});

test('playing begins where it stands, and anew where it was over', () => {
  expect([beginning(3, WHOLE, 60), beginning(5, WHOLE, 60), beginning(0, WHOLE, 60)]).toEqual([3, 0, 0]);
  const once = { ...WHOLE, loop: false };
  expect([beginning(4.99, once, 60), beginning(4.9, once, 60)]).toEqual([0, 4.9]);
  expect(beginning(0, { ...once, rate: -1 }, 60)).toBeCloseTo(5 - 1 / 60);
  expect(beginning(3, { ...WHOLE, from: 1, to: 2 }, 60)).toBe(1);
});
