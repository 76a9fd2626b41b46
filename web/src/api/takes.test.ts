import { describe, expect, it } from 'vitest';
import { Problem } from './client';
import { isBeingMade, Places, stopped, stopWords } from './takes';

const none = new Set<string>();
const refused = new Problem(409, 'INVALID_STATE', 'there is nothing to stop');
const silent = new Problem(0, 'UNREACHABLE', 'The server does not answer.');
const full = new Problem(503, 'STORAGE_FAILED', 'the database does not answer');

describe('what is still being made', () => {
  it('is what agents are at, and what waits for an agreement in the middle of it', () => {
    expect([{ owes: 'plan' }, { owes: null, approval: 'shell' }, { owes: null, approval: null }, {}].map(isBeingMade)).toEqual([true, true, false, false]);
  });
});

describe('stopping all of them', () => {
  const one = { id: 'ses_1', name: 'Take 1' };
  const two = { id: 'ses_2', name: 'Take 2' };

  it('says how many were stopped', () => {
    expect(stopWords(stopped([{ ...one, answer: {} }], none))).toBe('One take was stopped.');
    expect(stopped([{ ...one, answer: { result: { phase: 'plan' } } }, { ...two, answer: {} }], none)).toEqual({ count: 2, others: [], isBad: false });
  });

  it('says which could not be stopped, and why', () => {
    const found = stopped([{ ...one, problem: full }, { ...two, answer: {} }], new Set(['ses_1']));
    expect(found).toEqual({ count: 1, others: ['Take 1 was not stopped: the database does not answer.'], isBad: true });
    expect(stopWords(found)).toBe('One take was stopped. Take 1 was not stopped: the database does not answer.');
  });

  it('takes what was over by then for that, and for nothing that was stopped', () => {
    expect(stopped([{ ...two, problem: refused }], none)).toEqual({ count: 0, others: ['Take 2 is not being made any more.'], isBad: false });
  });

  it('does not say that what was not answered was stopped', () => {
    const may = { count: 0, others: ['Take 2 may go on: The server does not answer.'], isBad: true };
    expect([stopped([{ ...two, problem: silent }], undefined), stopped([{ ...two, problem: silent }], new Set(['ses_2']))]).toEqual([may, may]);
  });

  it('says of what waits in line that it is not stopped yet', () => {
    const found = stopped([{ ...one, answer: { result: { waits: true } } }], new Set(['ses_1']));
    expect(found).toEqual({ count: 0, others: ['Take 1 cannot be reached just now: it stops as soon as it can be.'], isBad: false });
  });
});

describe('places that are few', () => {
  it('are for those who asked first, and for the next once one is left', () => {
    const places = new Places(2);
    const told: boolean[] = [];
    places.watch(() => told.push(places.has('c')));
    const leave = places.ask('a');
    for (const who of ['b', 'c']) places.ask(who);
    expect(['a', 'b', 'c', 'd'].map((who) => places.has(who))).toEqual([true, true, false, false]);
    leave();
    expect(['a', 'b', 'c'].map((who) => places.has(who))).toEqual([false, true, true]);
    expect(told).toEqual([false, false, false, true]);
  });
});
