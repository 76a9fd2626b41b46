import { expect, test } from 'vitest';
import { MOST_CHARS, readable, withMore } from './output';

test('what a terminal shows is read without what colours and moves it', () => {
  expect(readable('\u001b[32mgreen\u001b[0m\r\n\u001b]0;a title\u0007done\r\n')).toBe('green\ndone\n');
  expect(readable('\u001b[?25l\u001b(Bx\u0008y')).toBe('xy');
});

test('of what was written over the last is read', () => {
  expect(readable('10%\r50%\r100%\r\nthere')).toBe('100%\nthere');
  expect(readable('50%\r')).toBe('50%');
});

test('a sequence that is not whole yet is not seen', () => {
  expect(readable('a\u001b[3')).toBe('a');
  expect(readable(withMore('a\u001b[3', '1mb'))).toBe('ab');
});

test('the end of what is long is kept', () => {
  const all = withMore('x'.repeat(MOST_CHARS), 'end');
  expect(all.length).toBe(MOST_CHARS);
  expect(all.endsWith('xend')).toBe(true);
});
