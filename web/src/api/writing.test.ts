import { expect, test } from 'vitest';
import { pieceOf, Writing } from './writing';

const told = (path: string, offset: number, delta: string) => JSON.stringify({ type: 'code_chunk', data: { path, offset, delta } });

function written(...pieces: [path: string, offset: number, delta: string][]): Writing {
  const writing = new Writing();
  for (const each of pieces) writing.take(pieceOf(told(...each))!);
  return writing;
}

test('pieces of a file go on where the one before ended, and another file begins anew', () => {
  expect(written(['a.tsx', 0, 'const '], ['a.tsx', 6, 'a = 1;\n'])).toMatchObject({ path: 'a.tsx', text: 'const a = 1;\n' });
  expect(written(['a.tsx', 0, 'const a'], ['b.tsx', 0, 'const b'])).toMatchObject({ path: 'b.tsx', text: 'const b' });
  expect(written(['a.tsx', 0, 'const a'], ['a.tsx', 0, 'let a'])).toMatchObject({ path: 'a.tsx', text: 'let a' });
});

test('characters are counted as the server does', () => {
  expect(written(['a.tsx', 0, '"🎬'], ['a.tsx', 2, '"'])).toMatchObject({ text: '"🎬"' });
});

test('what is missing before a piece is marked, and of a long file its end is shown', () => {
  expect(written(['a.tsx', 7, 'a = 1;'])).toMatchObject({ text: '…\na = 1;' });
  expect(written(['a.tsx', 0, 'const'], ['a.tsx', 9, '1;'])).toMatchObject({ text: '…\n1;' });
  const long = written(['a.tsx', 0, 'a'.repeat(30_000)], ['a.tsx', 30_000, 'end']);
  expect([long.text.slice(0, 2), long.text.slice(-4), long.text.length < 20_000]).toEqual(['…\n', 'aend', true]);
});

test('what is no piece of a file is left', () => {
  expect(pieceOf('{"type": "resync", "data": {"reason": "swept"}}')).toBeUndefined();
  expect(pieceOf('{"type": "code_chunk", "data": null}')).toBeUndefined();
});
