import { expect, test } from 'vitest';
import { frameAt, framesIn, mark, readTime, ruled, timecode } from './timecode';

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

test('a timeline of any length has 3 to 8 labels, and ticks between them', () => {
  for (const length of [0.5, 0.9, 1.5, 3, 5, 7.2, 10, 16, 31, 59, 61, 120, 300]) {
    const { labels, ticks } = ruled(length);
    expect(labels.length).toBeGreaterThanOrEqual(3);
    expect(labels.length).toBeLessThanOrEqual(8);
    expect(Math.max(...labels, ...ticks)).toBeLessThanOrEqual(length + 1e-3);
  }
  expect(ruled(5)).toEqual({ labels: [0, 1, 2, 3, 4, 5], ticks: expect.arrayContaining([0.2, 4.8]) as number[] });
  expect([0, 0.5, 4, 90, 120].map(mark)).toEqual(['0', '0.5', '4', '1:30', '2:00']);
});
