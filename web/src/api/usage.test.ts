import { expect, test } from 'vitest';
import type { Schemas } from './client';
import { isNear, linesOf, linesOfSpent, monthAfter, spentWords } from './usage';

const NOTHING = { tokens: 0, costUsd: 0, sandboxMinutes: 0, renderMinutes: 0, unpricedTokens: 0 };
const usage: Schemas['UserUsage'] = {
  month: '2026-11',
  spent: { ...NOTHING, costUsd: 1.5, tokens: 12_000, renderMinutes: 3.25 },
  held: { ...NOTHING, costUsd: 0.2 },
  budget: { costUsd: 2, renderMinutes: 0 },
  awake: 2,
  mostAwake: 200,
  sessions: 7,
  mostSessions: null,
  storedBytes: 0,
  mostStoredBytes: 107_374_182_400,
};

test('each line says what was used, of how much, and what is held', () => {
  const lines = linesOf(usage);
  expect(lines.map(({ name, words }) => `${name}: ${words}`)).toEqual([
    'Animations awake: 2 of 200',
    'Animations in all: 7',
    'Stored: nothing of 107.4 GB',
    'Models: $1.50 of $2.00',
    'Tokens: 12,000',
    'Rendering: 3.3 min of 0 min',
    'Sandboxes: 0 min',
  ]);
  expect(lines.map(({ held }) => held).filter(Boolean)).toEqual(['$0.20']);
});

test('what is nearly used up is said from the share on that the budget names, with what is held', () => {
  const near = (warnAt?: number) => linesOf(usage).filter((each) => isNear(each, warnAt)).map(({ name }) => name);
  expect(near()).toEqual(['Models', 'Rendering']);
  expect(near(0.9)).toEqual(['Rendering']);
});

test('a session has those lines that are spent, and each part of it its words', () => {
  expect(linesOfSpent(usage).map(({ name }) => name)).toEqual(['Models', 'Tokens', 'Rendering', 'Sandboxes']);
  expect(spentWords({ ...NOTHING, tokens: 1200, costUsd: 0.02 })).toBe('1,200 tokens · $0.0200');
  expect(spentWords({ ...NOTHING, renderMinutes: 2 })).toBe('2 min');
});

test('months go on over the end of a year', () => {
  expect([monthAfter('2026-11', -1), monthAfter('2026-12', 1), monthAfter('2026-01', -1)]).toEqual(['2026-10', '2027-01', '2025-12']);
});
