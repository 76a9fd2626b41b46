import { expect, test, vi } from 'vitest';
import { atChange, ownedBy, ownersBefore, whose } from './owner';

test('what is of a person ends where another one is signed in, and not where the same one is again', () => {
  const forgotten: string[] = [];
  const forget = vi.fn(() => forgotten.push(whose()));
  atChange(forget);
  for (const user of ['ann', 'ann']) ownedBy(user);
  expect(forget).not.toHaveBeenCalled();
  ownedBy('bob');
  expect([forgotten, ownersBefore()]).toEqual([['bob'], 1]); // it may go on with what is bob's
});
