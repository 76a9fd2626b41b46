import { expect, test } from 'vitest';
import { watchable } from './footage';

test('a render can be watched once a second of it stands, until it is done', () => {
  const progress = { jobId: 'job_a', percent: 20, stage: 'capturing' };
  expect(watchable(undefined)).toBeUndefined();
  expect(watchable(progress)).toBeUndefined();
  expect(watchable({ ...progress, watchableS: 0.9 })).toBeUndefined();
  expect(watchable({ ...progress, watchableS: 1 })).toBe('job_a');
  expect(watchable({ ...progress, percent: 100, watchableS: 5 })).toBeUndefined();
});
