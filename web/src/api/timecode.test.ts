import { expect, test } from 'vitest';
import { firstFrame, frameAt, framesIn, mark, readTime, ruled, timecode } from './timecode';

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
  for (const fps of [24, 29.97, 30, 60])
    for (let frame = 0; frame < 500; frame += 1) expect(firstFrame(frame / fps, fps)).toBe(frame);
  expect([frameAt(1.7, 24), firstFrame(1.7, 24)]).toEqual([40, 41]);
  expect([framesIn(5, 60), framesIn(0.001, 24)]).toEqual([300, 1]);
});

test('a timeline has 8 labels at most and 3 at least, a very short one fewer, and ticks between them', () => {
  for (const length of [0.5, 0.9, 1.5, 3, 5, 7.2, 10, 16, 31, 59, 61, 120, 300, 960, 961, 3600]) {
    const { labels, ticks } = ruled(length);
    expect(labels.length).toBeGreaterThanOrEqual(3);
    expect(labels.length).toBeLessThanOrEqual(8);
    expect(Math.max(...labels, ...ticks)).toBeLessThanOrEqual(length + 1e-3);
  }
  expect(ruled(0.1).labels).toEqual([0, 0.1]);
  expect(ruled(5)).toEqual({ labels: [0, 1, 2, 3, 4, 5], ticks: expect.arrayContaining([0.2, 4.8]) as number[] });
  expect([0, 0.5, 4, 90, 120].map(mark)).toEqual(['0', '0.5', '4', '1:30', '2:00']);
});
