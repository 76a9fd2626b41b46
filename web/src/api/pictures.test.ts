import { expect, test } from 'vitest';
import { type LookedAt, type Picture, timeOf, withPictures } from './pictures';

const said = (...seqs: number[]) => seqs.map((seq) => ({ seq, content: String(seq) }));
const taken = (...seqs: number[]) => seqs.map((seq) => ({ seq, atS: seq / 2 }) as Picture);
const shape = (told: ({ seq: number } | LookedAt)[]) => told.map((each) => ('pictures' in each ? each.pictures.map(({ seq }) => seq) : each.seq));

test('pictures stand between what was said before and after them, those of one look together in their order', () => {
  expect(shape(withPictures(said(9, 5, 2), taken(12, 8, 7, 6, 1)))).toEqual([[12], 9, [6, 7, 8], 5, 2, [1]]);
  expect(shape(withPictures([], taken(3, 2)))).toEqual([[2, 3]]);
  expect(shape(withPictures(said(2, 1), []))).toEqual([2, 1]);
});

test('what was looked at before all that is read of what was said waits until that is read', () => {
  expect(shape(withPictures(said(9, 5), taken(7, 4, 3), 5))).toEqual([9, [7], 5]);
  expect(shape(withPictures(said(9, 5, 2), taken(7, 4, 3, 1), 2))).toEqual([9, [7], 5, [3, 4], 2]);
});

test('what was looked at is named by its first picture, however many follow', () => {
  expect(withPictures([], taken(3, 2)).map(({ seq }) => seq)).toEqual(withPictures([], taken(2)).map(({ seq }) => seq));
});

test('a time of the film is told to the hundredth', () => {
  expect([timeOf({ atS: 1.5 }), timeOf({ atS: 0 }), timeOf({ atS: 61.256 })]).toEqual(['1.50 s', '0.00 s', '61.26 s']);
});
