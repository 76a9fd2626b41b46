import { expect, test } from 'vitest';
import { phasesTold } from './told';

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
