import { expect, test } from 'vitest';
import { agentsWords, capacitiesOf, type Cluster, clusterLines, nodeWords, readyWords } from './server';

const USED = { tokens: 0, costUsd: 0, renderMinutes: 0, sandboxMinutes: 0, unpricedTokens: 0 };
const NODE = { id: 'n', address: '10.0.0.1', group: 'head', status: 'working', idleS: 0, resources: {} } as const;
const REPORT: Cluster = {
  at: '2026-01-01T12:00:00Z',
  nodes: [NODE, { ...NODE, id: 'm', status: 'idle' }],
  lostNodes: 1,
  comingNodes: 0,
  browsers: { used: 2, total: 4 },
  room: { used: 1, total: 0 },
  sessions: { active: 3, asleep: 4, owing: 1, closing: 0 },
  renders: { queued: 1, running: 2, waiting: 5 },
  owed: { count: 0 },
  sandboxes: 6,
  database: { backend: 'sqlite', rows: {}, sizeBytes: 2_500_000, reads: 0, writes: 0, failures: 0, readMs: 0, writeMs: 0, slowestWriteMs: 0 },
  spentInMonth: USED,
  spent: USED,
  janitor: { wokeAt: '2026-01-01T11:57:00Z', waking: 0, failing: 0, tookS: 0, machines: 0, gone: 0 },
};

test('a cluster is said in a few lines', () => {
  expect(Object.fromEntries(clusterLines(REPORT))).toEqual({
    Machines: '2 (1 working, 1 at rest), 1 lost',
    Animations: '3 awake, 4 asleep, 1 with work to do',
    Renders: '2 under way, 1 not begun, 5 pieces that wait for a browser',
    Sandboxes: '6',
    Database: 'sqlite, 2.5 MB',
    Janitor: 'looked for work 3 min ago',
  });
  expect(capacitiesOf(REPORT)).toMatchObject([{ name: 'Browsers that render', share: 0.5, words: '2 of 4' }]);
});

test('that nobody can say it is said', () => {
  const told = Object.fromEntries(clusterLines({ ...REPORT, nodes: null, problem: 'this server is in no Ray cluster', janitor: null, janitorProblem: 'no answer' }));
  expect([told.Machines, told.Janitor]).toEqual(['this server is in no Ray cluster', 'no answer']);
  const alone = Object.fromEntries(clusterLines({ ...REPORT, nodes: null, problem: 'no cluster', janitor: null, janitorProblem: 'no cluster' }));
  expect([alone.Machines, alone.Janitor]).toEqual(['no cluster', undefined]); // once is enough
  expect(Object.fromEntries(clusterLines({ ...REPORT, owed: { count: 2, since: '2026-01-01T11:00:00Z' } }))['Left alone']).toBe('2 with work that nobody does, since 1 h ago');
});

test('a server says whether it works, and who the agents are', () => {
  expect(readyWords({ ready: true, parts: { database: 'ok' } })).toBe('It takes work.');
  expect(readyWords({ ready: false, parts: { database: 'the disk is full', storage: 'ok' } })).toBe('It takes no work now: database: the disk is full.');
  expect(readyWords({ ready: false, parts: { draining: 'stopping' } })).toBe('It takes no work now: it is stopping.');
  expect(agentsWords({ director: 'models', models: ['anthropic:one'] })).toBe('anthropic:one');
  expect(nodeWords({ ...NODE, status: 'draining', unfit: 'full' })).toBe('head, leaving, its disk is full');
});
