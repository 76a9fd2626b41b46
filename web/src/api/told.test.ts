import { expect, test } from 'vitest';
import { changesTold, phasesTold } from './told';

const take = (id: string, phase: 'plan' | 'executing' | 'preview', owes?: 'execute') => ({ id, phase, ...(owes ? { owes } : {}) });
const nameOf = ({ id }: { id: string }) => `Take ${id}`;

test('each that is elsewhere than before is told, with what it is called', () => {
  const before = [take('1', 'executing', 'execute'), take('2', 'executing', 'execute'), take('3', 'plan')];
  const now = [take('1', 'preview'), take('2', 'executing', 'execute'), take('3', 'executing', 'execute')];
  expect(phasesTold(before, now, nameOf)).toEqual(['Take 1: Preview to look at', 'Take 3: Making it']);
});

test('what came, what went and what stayed where it was is not told', () => {
  expect(phasesTold([take('1', 'plan'), take('2', 'plan')], [take('2', 'plan'), take('3', 'preview')], nameOf)).toEqual([]);
});

test('what one session came to is told once, and each todo when it is finished', () => {
  const todos = (...done: string[]) => ({ execution: { todos: ['Set up', 'Drop', 'Rest'].map((label) => ({ id: label, label, status: done.includes(label) ? ('done' as const) : ('pending' as const) })) } });
  const plan = { phase: 'plan' as const };
  const making = { phase: 'executing' as const, owes: 'execute' as const };
  expect(changesTold(undefined, plan)).toBe('Plan to look at');
  expect(changesTold(plan, plan)).toBe('');
  expect(changesTold(plan, { ...making, ...todos() })).toBe('Making it');
  expect(changesTold({ ...making, ...todos() }, { ...making, ...todos('Set up') })).toBe('Set up: done, 1 of 3');
  expect(changesTold({ ...making, ...todos('Set up') }, { ...making, ...todos('Set up', 'Drop', 'Rest') })).toBe('Drop, Rest: done, 3 of 3');
  expect(changesTold({ ...making, ...todos('Set up') }, { ...making, ...todos('Set up') })).toBe('');
  expect(changesTold({ ...making, ...todos('Set up') }, { phase: 'preview', ...todos('Set up', 'Drop', 'Rest') })).toBe('Preview to look at');
});

test('who comes to a session at work hears where it is, and what was finished last', () => {
  const todos = [{ id: '1', label: 'Set up', status: 'done' as const }, { id: '2', label: 'Drop', status: 'done' as const }, { id: '3', label: 'Rest' }];
  expect(changesTold(undefined, { phase: 'executing', owes: 'execute', execution: { todos } })).toBe('Making it. Drop: done, 2 of 3');
});
