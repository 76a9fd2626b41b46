import { expect, test } from 'vitest';
import { Problem } from './client';
import { budgetOf, inPercent, isStep, type Point, pointWords, ruleWords, typedOf } from './this-session';

const POINT: Point = { id: 'msg_1', kind: 'message', agent: 'orchestrator', role: 'assistant', text: 'A plan', undone: false, createdAt: '2026-01-01T00:00:00Z' };

test('only the limits that were typed and differ are asked for', () => {
  const now = { costUsd: 2, warnAt: 0.8 };
  expect(typedOf('warnAt', now)).toBe('80');
  expect(typedOf('tokens', now)).toBe('');
  expect(budgetOf({ costUsd: '2', tokens: '', warnAt: '80' }, now)).toEqual({});
  expect(budgetOf({ costUsd: ' 2.5', tokens: '1000', warnAt: '50' }, now)).toEqual({ costUsd: 2.5, tokens: 1000, warnAt: 0.5 });
  expect(budgetOf({ renderMinutes: '0' })).toEqual({ renderMinutes: 0 });
  expect(budgetOf({ costUsd: ' ', tokens: '', warnAt: '' }, now)).toEqual({ costUsd: null, warnAt: null });
});

test('what is refused of a percentage is said in percent, and nothing else is', () => {
  const said = (field: string, problem: string) => inPercent(new Problem(422, 'INVALID_INPUT', problem, [{ field, problem }])).fields[0]?.problem;
  expect(said('warnAt', 'at most 1, not 1.1')).toBe('at most 100%, not 110%');
  expect(said('warnAt', 'more than 0, not -0.05')).toBe('more than 0%, not -5%');
  expect(said('warnAt', 'at most 1, not 10,000')).toBe('at most 100%, not 1000000%');
  expect(said('warnAt', "a number, not '9 of 10'")).toBe("a number, not '9 of 10'");
  expect(said('tokens', 'at least 0, not -5')).toBe('at least 0, not -5');
});

test('a rule is read as it is said', () => {
  expect(ruleWords({ decision: 'deny', tool: '*', path: 'src/koda/*' })).toBe('Never: any tool in src/koda/*');
  expect(ruleWords({ decision: 'ask', tool: 'run_command', arguments: { command: 'npm *' } })).toBe('Ask me: run_command, with command: npm *');
});

test('a point says of whom it is, and small steps are told apart', () => {
  expect(pointWords(POINT)).toEqual({ who: 'orchestrator', words: 'A plan' });
  expect(pointWords({ ...POINT, role: 'user', text: 'A ball' })).toEqual({ who: 'Said to orchestrator', words: 'A ball' });
  expect(pointWords({ ...POINT, kind: 'checkpoint', text: 'todo' })).toEqual({ who: 'Files saved', words: 'as a step was done' });
  expect(pointWords({ ...POINT, kind: 'head', text: 'left for msg_1' }).who).toBe('Left by going back');
  expect([POINT, { ...POINT, text: 'write_file() read_file()' }, { ...POINT, text: '(result)' }, { ...POINT, text: 'Now write_file()' }].map(isStep)).toEqual([false, true, true, false]);
});
