import { expect, test } from 'vitest';
import { innermost, type Leavable } from './innermost';

const [body, star, field] = ['body', 'star', 'field'].map((name) => ({ name }) as unknown as Node);
const one = (...inside: unknown[]): Leavable => ({ leave: () => {}, part: () => ({ contains: (at) => inside.includes(at) }) });
const card = one(star);
const overlay = { ...one(), part: () => null };
const edits = one(field);

test('what one is in is left first, else what was opened last, and nothing where nothing is open', () => {
  expect(innermost([card, overlay], star!, false)).toBe(card);
  expect(innermost([card, overlay], body!, false)).toBe(overlay);
  expect(innermost([card], null, false)).toBe(card);
  expect(innermost([], body!, false)).toBeUndefined();
});

test('who types elsewhere leaves nothing, who types in it leaves it', () => {
  expect(innermost([card, edits], field!, true)).toBe(edits);
  expect(innermost([edits, card], field!, true)).toBe(edits);
  expect(innermost([card, overlay], field!, true)).toBeUndefined();
});
