import { describe, expect, it, test } from 'vitest';
import { ago, day, exactly, figure, moment, monthOf } from './dates';

const NOW = Date.parse('2026-11-26T12:00:00Z');

describe('ago', () => {
  it.each([
    [0, 'just now'],
    [-5, 'just now'], // another machine's clock
    [59, 'just now'],
    [60, '1 min ago'],
    [3599, '59 min ago'],
    [3600, '1 h ago'],
    [86_399, '23 h ago'],
    [86_400, 'a day ago'],
    [6 * 86_400, '6 days ago'],
    [8 * 86_400, '18 Nov'],
    [400 * 86_400, '22 Oct 2025'],
  ])('says of %i seconds: %s', (seconds, words) => {
    expect(ago(new Date(NOW - seconds * 1000).toISOString(), NOW)).toBe(words);
  });
});

test('days and moments are as short as they can be, and in one language', () => {
  const local = (...parts: [number, number, number, number, number]) => new Date(...parts).toISOString();
  const now = new Date(2026, 10, 26, 18).getTime();
  expect([day(local(2026, 10, 3, 9, 5), now), day(local(2025, 0, 31, 9, 5), now)]).toEqual(['3 Nov', '31 Jan 2025']);
  expect([moment(local(2026, 10, 26, 9, 5), now), moment(local(2026, 10, 3, 9, 5), now), moment(local(2025, 0, 31, 21, 5), now)]).toEqual([
    '09:05',
    '3 Nov, 09:05',
    '31 Jan 2025, 21:05',
  ]);
  expect(exactly(local(2026, 10, 3, 9, 5))).toMatch(/^3 November 2026(,| at) 09:05:00$/);
  expect([monthOf('2026-11'), figure(1234567.5)]).toEqual(['November 2026', '1,234,567.5']);
});
