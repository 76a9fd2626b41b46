/** What was said that its session has not taken, or agents at work have not begun to heed: until they do, it can be taken back. */
import { commandKey } from '../../node/src/http';
import { ask, noteTakenBack, type NodeState, type SessionView } from './client';

export type Unread = NonNullable<NodeState['unread']>[number];

/** What the agents have still to hear, oldest first, and whether each may be taken back. */
export function unreadOf(state: NodeState): readonly { said: Unread; isFree: boolean }[] {
  return (state.unread ?? []).map((said) => ({ said, isFree: !said.binding }));
}

/** Take a message back. Twice for the same state is once; in another one it is asked anew, since it may be there again. */
export async function takeBack(session: Pick<SessionView, 'id' | 'seq'>, said: Unread): Promise<void> {
  const key = commandKey(`takeback-${said.id}`, session.seq);
  await ask(`/v1/sessions/${session.id}/messages/${said.id}`, { method: 'DELETE', key });
  noteTakenBack(session.id);
}

/** What stands in the field once a message was taken back: its words, to be said otherwise, where nothing was typed since. */
export function wordsAfter(typed: string, said: Unread): string {
  return typed.trim() ? typed : (said.words ?? '');
}
