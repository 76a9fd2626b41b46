/** What is shown of a session's turn, and what was refused of what was sent in it. */
import { restOf } from '../../node/src/fields';
import type { NodeState } from '../api/client';
import type { Refused } from '../screens/session';

/** What names the server's answer, for the field that it answers. */
export const TURN_SAID = 'turn-said';

/** Which fields say themselves what is wrong with them. */
export function answering({ name, problem }: Refused): string[] {
  if (name === 'answer') return ['text'];
  return name === 'plan' ? problem.fields.flatMap(({ field }) => field.match(/^scenes\.\d+\.(title|duration|description)$/)?.[0] ?? []) : [];
}

/** Whether there is something to say of what was refused, beside what its fields say. */
export function leftToSay(refused: Refused | undefined): boolean {
  return refused !== undefined && restOf(refused.problem, answering(refused)) !== undefined;
}

/** Which of them is shown, by a name. */
export function shownOf({ owes, approval, phase, question }: NodeState): string {
  return owes ?? approval?.approvalId ?? (phase === 'question' ? `question ${question?.text}` : phase);
}
