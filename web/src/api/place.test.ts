import { expect, test } from 'vitest';
import { rangeOf, readPlace, withPlace } from './place';

test('a place is read as it was written, beside whatever else the address says', () => {
  const written = withPlace('?v=2&t=1', { t: 141 / 60, in: 1 / 60, out: 2.5, panel: 'live' });
  expect(written).toBe('?v=2&t=2.35&in=0.017&out=2.5&panel=live');
  expect(readPlace(written)).toEqual({ t: 2.35, in: 0.017, out: 2.5, panel: 'live' });
  expect(withPlace(written, { t: 0, in: undefined, out: undefined, panel: undefined })).toBe('?v=2');
  expect(withPlace('?t=1', { t: 0 })).toBe('');
  expect(readPlace('?t=soon&in=-1')).toEqual({ t: undefined, in: undefined, out: undefined, panel: undefined });
});

test('a part is so many frames, and none where it is all of the film or nothing of it', () => {
  expect(rangeOf({ in: 0.017, out: 2.5 }, 60, 300)).toEqual({ from: 1, to: 150 });
  expect(rangeOf({ out: 99 }, 60, 300)).toBeUndefined();
  expect(rangeOf({ in: 4 }, 60, 300)).toEqual({ from: 240, to: 300 });
  expect(rangeOf({ in: 9 }, 60, 300)).toBeUndefined();
  for (const fps of [24, 30, 60])
    for (let frame = 1; frame < 300; frame += 1) expect(rangeOf(readPlace(withPlace('', { in: frame / fps })), fps, 400)?.from).toBe(frame);
});
