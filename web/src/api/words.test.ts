import { expect, test } from 'vitest';
import { ago, bytes, fileName, seconds } from './words';

test('sizes and lengths are told as people read them', () => {
  expect([bytes(1), bytes(34_499), bytes(999_999), bytes(1_250_000), bytes(107_374_182_400)]).toEqual(['1 kB', '34 kB', '1000 kB', '1.3 MB', '107.4 GB']);
  expect([seconds(5), seconds(2.349)]).toEqual(['5 s', '2.3 s']);
});

test('a time is told by how long ago it was, and by its date once that says more', () => {
  const now = Date.parse('2026-03-04T12:00:00Z');
  const told = (back: number) => ago(new Date(now - back).toISOString(), now, 'en-GB');
  expect([told(59_000), told(60_000), told(3_599_000), told(3_600_000), told(86_399_000)]).toEqual([
    'just now',
    '1 min ago',
    '59 min ago',
    '1 h ago',
    '23 h ago',
  ]);
  expect(told(3 * 86_400_000)).toBe('1 Mar 2026');
  expect(told(-5_000)).toBe('just now'); // another machine's clock
});

test('a file is named after what it is of, in letters of any script', () => {
  expect([fileName('A red ball!'), fileName('  Ünïcode, 動画 2 '), fileName('***')]).toEqual(['a-red-ball', 'ünïcode-動画-2', 'koda']);
});
