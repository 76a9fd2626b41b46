import { expect, test } from 'vitest';
import { argumentsOf, argumentText } from './arguments';

const PROPOSED = { path: 'src/Ball.tsx', times: 2, where: { line: 1 } };

test('an argument is typed as text, and as JSON where it is none', () => {
  expect(argumentText('2')).toBe('2');
  expect(argumentText(2)).toBe('2');
  expect(argumentText({ line: 1 })).toBe('{\n  "line": 1\n}');
});

test('what nobody changed is agreed to as it was proposed', () => {
  expect(argumentsOf(PROPOSED, {})).toEqual({ given: undefined, wrong: [] });
  expect(argumentsOf(PROPOSED, { path: 'src/Ball.tsx', times: '2' })).toEqual({ given: undefined, wrong: [] });
});

test('what was changed goes with all the rest, each as what it is', () => {
  const typed = { path: '3', times: ' 3 ', where: '{"line": 7}' };
  expect(argumentsOf(PROPOSED, typed)).toEqual({ given: { path: '3', times: 3, where: { line: 7 } }, wrong: [] });
});

test('what is no JSON any more is named', () => {
  expect(argumentsOf(PROPOSED, { times: 'two', where: '{' }).wrong).toEqual(['times', 'where']);
});
