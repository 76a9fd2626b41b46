/** What agents are at, in words, and what there is of what they did not finish. */
import { useRef } from 'react';
import type { SessionView } from './client';

const LONG_S = 20;

export function heading(owes: string | null | undefined): string {
  if (owes === 'analyze') return 'Reading what you wrote';
  if (owes === 'plan') return 'Planning the scenes';
  return owes === 'render_final' ? 'Rendering the video' : 'Making it';
}

/** Whether nothing new was thought for long, of work that takes so many seconds by now. */
export function useLong(thinking: string, since: number): boolean {
  const heard = useRef({ thinking, at: thinking ? since : 0 });
  if (heard.current.thinking !== thinking) heard.current = { thinking, at: since };
  return since - (thinking ? heard.current.at : 0) > LONG_S;
}

/** Words that others come after. */
export function sentence(words: string): string {
  return /[.!?…:]$/.test(words) ? words : `${words}.`;
}

/** What there is of something that stopped. */
export function kept({ state }: SessionView): string {
  const files = state.execution?.files.length ?? 0;
  const there = [state.plan && 'the plan', files && `${files} ${files === 1 ? 'file' : 'files'}`, (state.preview ?? state.finished) && 'the video'];
  const named = there.filter(Boolean);
  return named.length ? `Kept: ${named.join(', ')}.` : 'Nothing was made yet.';
}

/** What was stopped, and what there is all the same. */
export function stoppedWords(session: SessionView): string {
  const { stopped, phase } = session.state;
  if (stopped === 'render_final') return 'The rendering was stopped. What was rendered is kept: rendered again, it goes on from there.';
  if (stopped !== 'execute') return phase === 'plan' ? 'Planning was stopped. This is the plan from before.' : 'This was stopped before there was a plan. What you wrote is kept.';
  if (phase === 'preview') return `This was stopped before there was another preview: this one is from before. ${kept(session)}`;
  return `This was stopped before there was a preview. ${kept(session)} Made again, it goes on with that.`;
}
