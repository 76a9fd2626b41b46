/** What was said to agents at work who have not begun to heed it: until they do, it can be taken back. */
import { ask, type NodeState } from './client';

export type Unread = NonNullable<NodeState['unread']>[number];

/** What the agents have still to hear, oldest first, and whether each may be taken back. */
export function unreadOf(state: NodeState): readonly { said: Unread; isFree: boolean }[] {
  return (state.unread ?? []).map((said) => ({ said, isFree: !said.binding }));
}

/** Take a message back. Twice is once, also where the first answer was lost. */
export function takeBack(sessionId: string, said: Unread): Promise<unknown> {
  return ask(`/v1/sessions/${sessionId}/messages/${said.id}`, { method: 'DELETE', key: `web-takeback-${said.id}` });
}

/** What stands in the field once a message was taken back: its words, to be said otherwise, where nothing was typed since. */
export function wordsAfter(typed: string, said: Unread): string {
  return typed.trim() ? typed : (said.words ?? '');
}
