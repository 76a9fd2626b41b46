import { describe, expect, it } from 'vitest';
import type { SessionSummary } from './client';
import { address, ago, inOrder, read, written } from './gallery';
import { setOf } from './hooks';

const NOW = Date.parse('2026-11-26T12:00:00Z');

describe('what is looked for', () => {
  it('is read out of an address as it was written there, beside what else is', () => {
    const params = written(new URLSearchParams('v=3'), { text: ' two words & more ', show: 'finished' });
    expect([...params]).toEqual([['v', '3'], ['q', 'two words & more'], ['show', 'finished']]); // prettier-ignore
    expect(read(params)).toEqual({ text: 'two words & more', show: 'finished' });
    expect(written(params, { text: '', show: 'all' }).toString()).toBe('v=3');
  });

  it('is all where the address says what nobody knows', () => {
    expect(read(new URLSearchParams('show=dancing&q=+'))).toEqual({ text: '', show: 'all' });
  });

  it('is what the server is asked, last changed first, a page after the other', () => {
    const asked = (at: string) => Object.fromEntries(new URL(at, 'http://koda.test').searchParams);
    const page = { pinned: 'false', limit: 24, before: null };
    expect(asked(address({ text: 'a ball', show: 'working' }, page))).toEqual({ turn: 'agents', order: 'changed', text: 'a ball', pinned: 'false', limit: '24' }); // prettier-ignore
    expect(asked(address({ text: '', show: 'all' }, { before: 'x-1' }))).toEqual({ order: 'changed', before: 'x-1' });
  });
});

describe('ago', () => {
  it.each([
    [0, 'just now'],
    [-5, 'just now'],
    [59, 'just now'],
    [60, '1 min ago'],
    [3599, '59 min ago'],
    [3600, '1 h ago'],
    [86_399, '23 h ago'],
    [86_400, 'a day ago'],
    [6 * 86_400, '6 days ago'],
    [8 * 86_400, '18 Nov'],
    [400 * 86_400, '22 Oct 2025'],
  ])('says of %i seconds: %s', (seconds, words) => {
    expect(ago(new Date(NOW - seconds * 1000).toISOString(), NOW)).toBe(words);
  });
});

describe('setOf', () => {
  it('is the same in whichever order a list has them, so that nothing is followed anew', () => {
    const [a, b, c] = ['a', 'b', 'c'].map((id) => ({ id }));
    expect(setOf([b!, c!, a!])).toBe(setOf([a!, b!, c!]));
    expect(setOf([a!, b!])).not.toBe(setOf([a!, b!, c!]));
  });
});

describe('inOrder', () => {
  it('has pinned ones first, and each once', () => {
    const [a, b, c] = ['a', 'b', 'c'].map((id) => ({ id }) as SessionSummary);
    expect(inOrder([b!], [a!, b!, c!]).map(({ id }) => id)).toEqual(['b', 'a', 'c']);
  });
});
