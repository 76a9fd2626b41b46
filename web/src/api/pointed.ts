/** What was said by pointing: the talk has it in words, the session's state has the notes that these were made of. */
import type { NodeState, VersionView } from './client';
import type { Note } from './notes';

export interface Noted {
  /** What was said beside the notes; it may be empty. */
  words: string;
  notes: readonly Note[];
}

/** The notes that a message in the talk was made of; undefined where it is words alone. */
export function notedIn({ pointed, feedback }: Pick<NodeState, 'pointed' | 'feedback'>, said: string): Noted | undefined {
  return pointed.findLast(({ change }) => feedback[change - 1] === said);
}

/** The version that was shown when something was said, of versions from the oldest on; undefined where none of them was. */
export function shownAt(versions: readonly VersionView[], at: string): VersionView | undefined {
  return versions.findLast(({ createdAt, undone }) => !undone && Date.parse(createdAt) <= Date.parse(at));
}
