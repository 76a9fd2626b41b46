import { describe, expect, it } from 'vitest';
import type { SessionSummary } from './client';
import { address, EVERYTHING, inOrder, isNarrowed, read, spanOf, type When, written } from './gallery';
import { setOf } from './hooks';

describe('what is looked for', () => {
  const own = { when: 'own', from: '2026-11-03', to: '2026-11-05' } as const;

  it('is read out of an address as it was written there, beside what else is', () => {
    const params = written(new URLSearchParams('v=3'), { ...EVERYTHING, text: ' two words & more ', show: 'finished' });
    expect([...params]).toEqual([['v', '3'], ['q', 'two words & more'], ['show', 'finished']]); // prettier-ignore
    expect(read(params)).toEqual({ ...EVERYTHING, text: 'two words & more', show: 'finished' });
    expect(written(params, EVERYTHING).toString()).toBe('v=3');
    const narrowed = written(params, { ...EVERYTHING, project: 'toys', ...own, status: 'active' });
    expect(narrowed.toString()).toBe('v=3&project=toys&when=own&from=2026-11-03&to=2026-11-05&status=active');
    expect(read(narrowed)).toEqual({ ...EVERYTHING, project: 'toys', ...own, status: 'active' });
    expect(written(narrowed, { ...read(narrowed), when: 'week' }).toString()).toBe('v=3&project=toys&when=week&status=active'); // dates are of their choice alone
  });

  it('is all where the address says what nobody knows', () => {
    expect(read(new URLSearchParams('show=dancing&q=+&when=toString&from=2026-11-03&status=closed'))).toEqual(EVERYTHING);
    expect(read(new URLSearchParams('when=own&from=yesterday&to=2026-11-05'))).toEqual({ ...EVERYTHING, when: 'own', to: '2026-11-05' });
  });

  it('is less than all once a project, a time or what is awake is chosen', () => {
    expect([EVERYTHING, { ...EVERYTHING, text: 'x' }, { ...EVERYTHING, project: 'toys' }, { ...EVERYTHING, ...own }, { ...EVERYTHING, status: 'suspended' } as const].map(isNarrowed)).toEqual([false, false, true, true, true]);
  });

  it('is what the server is asked, last changed first, a page after the other', () => {
    const asked = (at: string) => Object.fromEntries(new URL(at, 'http://koda.test').searchParams);
    const page = { project: '', since: undefined, pinned: 'false', limit: 24, before: null };
    expect(asked(address({ text: 'a ball', show: 'working' }, page))).toEqual({ turn: 'agents', order: 'changed', text: 'a ball', pinned: 'false', limit: '24' }); // prettier-ignore
    expect(asked(address({ text: '', show: 'all' }, { project: 'toys', before: 'x-1' }))).toEqual({ order: 'changed', project: 'toys', before: 'x-1' });
  });
});

describe('spanOf', () => {
  const now = new Date(2026, 10, 26, 18, 30);
  const span = (when: When, from = '', to = '') => spanOf({ when, from, to }, now);
  const at = (...parts: [number, number, number]) => new Date(...parts).toISOString();

  it('is of whole days, by the clock of whoever looks, today being the last of them', () => {
    expect([span('today'), span('week'), span('month'), span('')]).toEqual([
      { since: at(2026, 10, 26) },
      { since: at(2026, 10, 20) },
      { since: at(2026, 9, 28) },
      {},
    ]);
  });

  it('has of dates of one’s own the last one, too, and is open where one is left out', () => {
    expect(span('own', '2026-11-03', '2026-11-30')).toEqual({ since: at(2026, 10, 3), until: at(2026, 11, 1) });
    expect([span('own', '', '2026-12-31'), span('own', '2026-11-03'), span('own')]).toEqual([{ until: at(2027, 0, 1) }, { since: at(2026, 10, 3) }, {}]);
  });

  it('is the same all day long, so that nothing is read anew', () => {
    expect(spanOf({ when: 'week', from: '', to: '' }, new Date(2026, 10, 26, 0, 1))).toEqual(span('week'));
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
