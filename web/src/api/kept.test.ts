import { expect, test } from 'vitest';
import { forgetTyped, keep, readKept } from './kept';

function storage(): Storage {
  const kept: Record<string, unknown> = {};
  const methods = { getItem: (name: string) => kept[name] ?? null, setItem: (name: string, value: string) => (kept[name] = value), removeItem: (name: string) => delete kept[name] };
  return Object.setPrototypeOf(kept, methods) as Storage;
}

test('what is typed is there again for who typed it, where they did, until it is sent', () => {
  const kept = storage();
  keep('ann.ses_1.talk', 'make it red', '', kept);
  keep<Record<number, string>>('ann.ses_1.comments', { 2: 'slower' }, {}, kept);
  expect(readKept('ann.ses_1.talk', '', kept)).toBe('make it red');
  expect(readKept('ann.ses_1.comments', {}, kept)).toEqual({ 2: 'slower' });
  for (const other of ['bob.ses_1.talk', 'ann.ses_2.talk']) expect(readKept(other, '', kept)).toBe('');
  keep('ann.ses_1.talk', '', '', kept);
  expect(Object.keys(kept)).toEqual(['koda.typed.ann.ses_1.comments']);
  kept.setItem('another', 'stays');
  forgetTyped(kept);
  expect(Object.keys(kept)).toEqual(['another']);
});

test('what another page left there is nothing that was typed', () => {
  const kept = storage();
  for (const left of ['{', '7', 'null', '[]']) {
    kept.setItem('koda.typed.x', left);
    expect(readKept('x', '', kept)).toBe('');
    expect(readKept('x', {}, kept)).toEqual({});
  }
});

test('a storage that is full loses nothing that is on the screen', () => {
  const kept = { setItem: () => { throw new Error('full'); } } as unknown as Storage; // prettier-ignore
  expect(() => keep('x', 'more', '', kept)).not.toThrow();
});
