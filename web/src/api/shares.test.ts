import { expect, test } from 'vitest';
import { commentWords } from './shares';

test('what was said with all links is counted, in words', () => {
  expect(commentWords([])).toBe('');
  expect(commentWords([{ commented: 0 }])).toBe('');
  expect(commentWords([{ commented: 0 }, { commented: 1 }])).toBe('One comment');
  expect(commentWords([{ commented: 2 }, { commented: 1 }])).toBe('3 comments');
});
