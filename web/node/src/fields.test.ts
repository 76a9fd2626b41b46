import { expect, test } from 'vitest';
import { fieldOf, restOf } from './fields';
import { Problem } from './http';

const problem = new Problem(422, 'INVALID_INPUT', 'all of it', [
  { field: 'budget.tokens', problem: 'too few' },
  { field: 'permissions.rules.1.tool', problem: 'too long' },
  { field: 'permissions.rules.10', problem: 'no rule' },
  { field: 'colour', problem: 'there is no such field' },
]);

test('a field is told what was said of it, and no other what is like it', () => {
  expect(fieldOf(problem, 'budget.tokens')).toBe('too few');
  expect(['tokens', 'budget.token', 'budget.costUsd', 'prompt'].map((name) => fieldOf(problem, name))).toEqual([undefined, undefined, undefined, undefined]);
  expect([fieldOf(undefined, 'prompt'), fieldOf(null, 'prompt')]).toEqual([undefined, undefined]);
});

test('what was said of something in a field names that, but for what has a field of its own', () => {
  expect(fieldOf(problem, 'permissions.rules.1')).toBe('tool: too long');
  expect(fieldOf(problem, 'permissions.rules')).toBe('1.tool: too long; 10: no rule');
  expect(fieldOf(problem, 'permissions.rules', ['permissions.rules.1'])).toBe('10: no rule');
  expect(fieldOf(problem, 'permissions.rules', ['permissions.rules.1', 'permissions.rules.10'])).toBeUndefined();
});

test('what belongs to no field that is shown is said of all of them', () => {
  const shown = ['budget.tokens', 'permissions.rules'];
  expect(restOf(problem, shown)).toBe('colour: there is no such field');
  expect(restOf(problem, [...shown, 'colour'])).toBeUndefined();
  expect(restOf(problem, ['prompt'])).toBe('all of it');
  expect(restOf(new Problem(429, 'LIMIT_REACHED', 'no room'), shown)).toBe('no room');
  expect(restOf(null, shown)).toBeUndefined();
});
