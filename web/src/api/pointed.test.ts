import { expect, test } from 'vitest';
import type { VersionView } from './client';
import { notedIn, shownAt } from './pointed';

const note = (text: string) => ({ text, time: 2.35, frame: 141 });

test('a message has the notes that it was made of, and its own words beside them', () => {
  const state = {
    feedback: ['Larger.', 'Nearly.\n1. At 2.35 s, the whole picture: red', '1. At 2.35 s, the whole picture: slower'],
    pointed: [
      { change: 2, words: 'Nearly.', notes: [note('red')] },
      { change: 3, words: '', notes: [note('slower')] },
    ],
  };
  expect(notedIn(state, state.feedback[1] ?? '')).toMatchObject({ words: 'Nearly.', notes: [note('red')] });
  expect(notedIn(state, state.feedback[2] ?? '')).toMatchObject({ words: '', notes: [note('slower')] });
  expect(notedIn(state, 'Larger.')).toBeUndefined();
});

test('what was said was said of the version that was shown then, which nobody went back behind since', () => {
  const version = (number: number, createdAt: string, undone = false) => ({ number, createdAt, undone }) as VersionView;
  const versions = [version(1, '2026-01-01T10:00:00Z'), version(2, '2026-01-01T11:00:00Z', true), version(3, '2026-01-01T12:00:00+00:00')];
  const shown = (at: string) => shownAt(versions, at)?.number;
  expect(['2026-01-01T09:00:00Z', '2026-01-01T10:00:00.5Z', '2026-01-01T11:30:00Z', '2026-01-01T12:00:01Z'].map(shown)).toEqual([undefined, 1, 1, 3]);
});
