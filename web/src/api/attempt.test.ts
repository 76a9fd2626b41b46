import { expect, test } from 'vitest';
import { Attempt } from './attempt';
import { Problem } from './client';

const attempt = () => {
  let made = 0;
  return new Attempt(() => `key ${(made += 1)}`);
};

test('what is sent again because its answer was lost is the same request', () => {
  const one = attempt();
  expect(one.keyOf({ text: 'slower' })).toBe('key 1');
  for (const status of [0, 500, 503]) {
    one.ended(new Problem(status, 'X', ''));
    expect(one.keyOf({ text: 'slower' })).toBe('key 1');
  }
});

test('a page that is loaded anew goes on with what was sent and not answered', () => {
  const [one, other] = [attempt(), new Attempt(() => 'another key')];
  one.keyOf({ text: 'slower' });
  other.restore(one.sent);
  expect(other.keyOf({ text: 'slower' })).toBe('key 1');
  one.ended();
  other.restore(one.sent);
  expect([one.sent.asked, other.keyOf({ text: 'slower' })]).toEqual(['', 'another key']);
});

test('what was changed, answered or refused is another one', () => {
  const one = attempt();
  one.keyOf({ text: 'slower' });
  expect(one.keyOf({ text: 'faster' })).toBe('key 2');
  one.ended();
  expect(one.keyOf({ text: 'faster' })).toBe('key 3');
  one.ended(new Problem(422, 'X', ''));
  expect(one.keyOf({ text: 'faster' })).toBe('key 4');
});
