import { expect, test } from 'vitest';
import { doingWords, farWords, isUnanswered, leftWords, progressIn, stageWords } from './session';

test('a row says how far its render is, and one that is over says nothing', () => {
  const progress = { percent: 10, stage: 'capturing', framesDone: 1, framesTotal: 75, secondsLeft: 4.5 };
  const found = progressIn([{ id: 'job_2', status: 'running', progress }, { id: 'job_1', status: 'running', progress: {} }]);
  expect(found).toEqual({ ...progress, jobId: 'job_2' });
  expect(found && [farWords(found), doingWords(found)]).toEqual(['1 of 75 frames', 'Taking frames · about 5 s left']);
  const waits = progressIn([{ id: 'job_1', status: 'queued', progress: {} }]);
  expect(waits && [farWords(waits), doingWords(waits)]).toEqual(['', 'Waits for its turn']);
  expect(progressIn([{ id: 'job_1', status: 'cancelled', progress }])).toBeUndefined();
  expect(progressIn([])).toBeUndefined();
});

test('what is left is never nothing, and minutes once seconds say too much', () => {
  expect([0, 11.2, 119, 150].map(leftWords)).toEqual(['about 1 s left', 'about 12 s left', 'about 119 s left', 'about 3 min left']);
  expect(doingWords({ jobId: 'job_1', percent: 10, stage: 'capturing', secondsLeft: 339 })).toBe('Taking frames · about 6 min left');
});

test('the option that stands for own words answers nothing without them', () => {
  const unanswered = (...[option, words]: [string, string]) => isUnanswered({ customInput: true }, option, words);
  expect([unanswered('', ' '), unanswered('other', ''), unanswered('other', 'red'), unanswered('', 'red'), unanswered('playful', '')]).toEqual([true, true, false, false, false]);
  expect(isUnanswered({ customInput: false }, 'other', '')).toBe(false); // there is no place for words
});

test('a stage that is not known is called as it calls itself', () => {
  expect([stageWords('waiting'), stageWords('polishing')]).toEqual(['Waits for a machine', 'polishing']);
});
