import { expect, test } from 'vitest';
import { bytes, fileName, seconds } from './words';

test('sizes and lengths are told as people read them', () => {
  expect([bytes(1), bytes(34_499), bytes(999_999), bytes(1_250_000), bytes(107_374_182_400)]).toEqual(['1 kB', '34 kB', '1000 kB', '1.3 MB', '107.4 GB']);
  expect([seconds(5), seconds(2.349)]).toEqual(['5 s', '2.3 s']);
});

test('a file is named after what it is of, in letters of any script', () => {
  expect([fileName('A red ball!'), fileName('  Ünïcode, 動画 2 '), fileName('***')]).toEqual(['a-red-ball', 'ünïcode-動画-2', 'koda']);
});
