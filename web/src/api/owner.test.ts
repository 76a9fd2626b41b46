import { expect, test, vi } from 'vitest';
import { atChange, ownedBy } from './owner';

test('what is of a person ends where another one is signed in, and not where the same one is again', () => {
  const forget = vi.fn();
  atChange(forget);
  for (const user of ['ann', 'ann']) ownedBy(user);
  expect(forget).not.toHaveBeenCalled();
  ownedBy('bob');
  expect(forget).toHaveBeenCalledTimes(1);
});
