import { expect, test } from 'vitest';
import { timeWords } from './times';

const THIS_YEAR = new Date().getFullYear();

test('a choice of times is told so that it can stand in a sentence', () => {
  const own = (from: string, to: string) => timeWords({ when: 'own', from, to });
  expect(timeWords({ when: 'week', from: '', to: '' })).toBe('in the last 7 days');
  expect(own(`${THIS_YEAR}-11-03`, `${THIS_YEAR}-11-05`)).toBe('from 3 Nov to 5 Nov');
  expect([own('2019-11-03', '2019-11-03'), own('2019-11-03', ''), own('', '2019-11-05'), own('', '')]).toEqual([
    'on 3 Nov 2019',
    'since 3 Nov 2019',
    'until 5 Nov 2019',
    'at any time',
  ]);
});
