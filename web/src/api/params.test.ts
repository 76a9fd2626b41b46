import { expect, test } from 'vitest';
import { withParams } from './params';

test('what stands in the address is changed by its name, and nothing else is', () => {
  const now = new URLSearchParams('v=2&t=1.5');
  expect(String(withParams(now, { files: 'src/App.tsx' }))).toBe('v=2&t=1.5&files=src%2FApp.tsx');
  expect(String(withParams(now, { files: '', v: undefined }))).toBe('t=1.5&files=');
  expect(String(now)).toBe('v=2&t=1.5');
});
