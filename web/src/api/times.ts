/** The times among which one chooses when something was changed, and what they are called. */
import { day } from './dates';
import type { Sought, When } from './gallery';

export const TIMES: readonly (readonly [When, string])[] = [
  ['', 'Any time'],
  ['today', 'Today'],
  ['week', 'Last 7 days'],
  ['month', 'Last 30 days'],
  ['own', 'Dates of your own'],
];

/** A choice in a sentence: "Nothing changed …". */
export function timeWords({ when, from, to }: Pick<Sought, 'when' | 'from' | 'to'>): string {
  if (when !== 'own') return { '': '', today: 'today', week: 'in the last 7 days', month: 'in the last 30 days' }[when];
  const [first, last] = [from, to].map((date) => date && day(`${date}T00:00`));
  if (first && last) return first === last ? `on ${first}` : `from ${first} to ${last}`;
  return first ? `since ${first}` : last ? `until ${last}` : 'at any time';
}
