import { expect, test } from 'vitest';
import { frameAt, framesIn, readTime, timecode } from './timecode';

test('times are read as they are written, and as people type them', () => {
  expect(timecode(2.35)).toBe('00:02.350');
  expect(timecode(61.9996)).toBe('01:02.000');
  for (const typed of ['2.35', '00:02.350', '2,35 s', ' f141 ']) expect(readTime(typed, 60)).toBeCloseTo(2.35);
  expect(readTime('1:30', 60)).toBe(90);
  for (const typed of ['', 'soon', '-1', 'f', '1:2:3']) expect(readTime(typed, 60)).toBeUndefined();
});

test('each frame begins where it is sought', () => {
  for (const fps of [24, 29.97, 30, 60])
    for (let frame = 0; frame < 500; frame += 1) expect(frameAt(frame / fps, fps)).toBe(frame);
  expect([framesIn(5, 60), framesIn(0.001, 24)]).toEqual([300, 1]);
});
