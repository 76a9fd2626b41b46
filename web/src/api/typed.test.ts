import { expect, test } from 'vitest';
import { numberOf } from './typed';

test('a number is sent as one, and what is none as it was typed', () => {
  expect(['7.5', ' -5 ', '1e3', '0'].map(numberOf)).toEqual([7.5, -5, 1000, 0]);
  expect(['soon', '1,000', 'Infinity', '30000/1001', '-', ' '].map(numberOf)).toEqual(['soon', '1,000', 'Infinity', '30000/1001', '-', '']);
});
