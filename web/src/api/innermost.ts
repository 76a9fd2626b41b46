/** Which one thing Escape leaves, of all that somebody is in. */

/** Something that can be left, and the part of the page that it is, where it is one. */
export interface Leavable {
  leave: () => void;
  part: () => Pick<Node, 'contains'> | null | undefined;
}

/**
 * The one that somebody is in, else the one that was opened last. What is typed into is left by that alone which it is a part of:
 * who types elsewhere means what they type.
 */
export function innermost<L extends Leavable>(open: readonly L[], at: Node | null, isTypedInto: boolean): L | undefined {
  return open.findLast(({ part }) => part()?.contains(at)) ?? (isTypedInto ? undefined : open.at(-1));
}
