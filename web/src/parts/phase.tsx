import type { NodeState } from '../api/client';

const OWED: Record<string, string> = {
  analyze: 'Reading the prompt',
  plan: 'Planning the scenes',
  execute: 'Making it',
  render_final: 'Rendering the video',
};
const PHASES: Record<NodeState['phase'], string> = {
  idle: 'Waiting to begin',
  question: 'Asks you something',
  plan: 'Plan to look at',
  executing: 'Making it',
  preview: 'Preview to look at',
  complete: 'Finished',
  error: 'Stopped',
};

interface Where {
  phase: NodeState['phase'];
  owes?: NodeState['owes'];
  approval?: unknown;
}

/** Where a session is, in words. */
export function phaseWords({ phase, owes, approval }: Where): string {
  if (approval) return 'Asks for your agreement';
  return (owes && OWED[owes]) || PHASES[phase];
}

export function Phase({ state }: { state: Where }) {
  const works = Boolean(state.owes);
  const waits = Boolean(state.approval) || (['question', 'plan', 'preview'].includes(state.phase) && !works);
  const colour = state.phase === 'error' ? 'text-bad' : waits ? 'text-accent' : state.phase === 'complete' ? 'text-good' : 'text-muted';
  return (
    <span className={`inline-flex items-center gap-2 text-sm ${colour}`}>
      <span aria-hidden className={`size-1.5 rounded-full bg-current ${works ? 'breathing' : ''}`} />
      {phaseWords(state)}
    </span>
  );
}
