/** What the node reads of a session, as the server says it, and where that is in words. */
import type { Phase } from './plugin';

export type Owes = 'analyze' | 'plan' | 'execute' | 'render_final';

export interface Scene {
  number: number;
  title: string;
  /** Seconds. */
  duration: number;
  description: string;
}

export interface Todo {
  id: string;
  label: string;
  status?: 'pending' | 'active' | 'done';
}

/** What was made; of the final video while it is rendered there is no address yet. */
export interface Made {
  jobId: string;
  videoUrl?: string | null;
  thumbnailUrl?: string | null;
  duration?: number | null;
}

/** A final video: what it is, whatever was asked for since. */
export interface Final extends Made {
  resolution?: string | null;
  fileSize?: number | null;
  format?: string | null;
  transparent?: boolean | null;
  fps?: number | null;
}

/** What a final video shall be. */
export interface Asked {
  resolution?: string;
  fps?: number;
  format?: string;
  transparent?: boolean;
}

export interface SessionState {
  phase: Phase;
  owes?: Owes | null;
  owedSince?: string | null;
  /** What was stopped last, until there is work again. */
  stopped?: Owes | null;
  prompt: string;
  style?: string | null;
  question?: { text: string; options?: { id: string; label: string; description?: string | null }[]; customInput?: boolean } | null;
  plan?: { scenes: Scene[]; totalDuration: number; style: string; fps?: number; width?: number; height?: number } | null;
  execution?: { todos?: Todo[]; thinking?: string; files?: string[] } | null;
  preview?: Made | null;
  output?: Final | null;
  finished?: Final | null;
  error?: { message: string; code: string; canRetry?: boolean; details?: string | null } | null;
  approval?: { approvalId: string; name: string; reason?: string } | null;
  render?: Asked | null;
}

export interface NodeSession {
  id: string;
  nodeId: string;
  status: 'active' | 'suspended' | 'closed';
  /** The number of its newest event. */
  seq: number;
  title?: string | null;
  createdAt: string;
  state: SessionState;
}

/** One event of a session's log. */
export interface SessionEvent {
  streamId: string;
  seq: number;
  type: string;
  data?: Record<string, unknown> | null;
}

export interface Progress {
  jobId: string;
  percent: number;
  stage: string;
  framesDone?: number;
  framesTotal?: number;
  secondsLeft?: number;
  /** How many seconds of the video stand, from its beginning. */
  watchableS?: number;
}

/** A render's row, as far as it says how far that is. */
export interface Job {
  id: string;
  status: 'queued' | 'running' | 'succeeded' | 'failed' | 'cancelled';
  progress: Record<string, unknown>;
}

const STAGES: Record<string, string> = {
  queued: 'Waits for its turn',
  waiting: 'Waits for a machine',
  capturing: 'Taking frames',
  encoding: 'Encoding',
  joining: 'Joining',
  uploading: 'Storing',
};

/** What a render does just now, in words. */
export function stageWords(stage: string): string {
  return STAGES[stage] ?? stage;
}

/** Whether what a session owes comes to a render. */
export function mayRender(owes: Owes | null | undefined): boolean {
  return owes === 'execute' || owes === 'render_final';
}

/** How far the newest of a session's renders is, as its row says; nothing where none is under way. */
export function progressIn(jobs: readonly Job[]): Progress | undefined {
  const [job] = jobs;
  if (!job || (job.status !== 'queued' && job.status !== 'running')) return undefined;
  return { percent: 0, stage: job.status === 'queued' ? 'queued' : 'waiting', ...job.progress, jobId: job.id };
}

/** How far a render is, in words; where nothing is made of it yet, nothing. */
export function farWords({ percent, framesDone, framesTotal }: Progress): string {
  if (framesTotal) return `${framesDone ?? 0} of ${framesTotal} frames`;
  return percent ? `${Math.round(percent)} %` : '';
}

/** How long something will take, in seconds up to two minutes, then in minutes. */
export function leftWords(seconds: number): string {
  const whole = Math.max(1, Math.ceil(seconds));
  return whole < 120 ? `about ${whole} s left` : `about ${Math.round(whole / 60)} min left`;
}

/** What a render does, and how long it may take still. */
export function doingWords({ stage, secondsLeft }: Progress): string {
  return secondsLeft ? `${stageWords(stage)} · ${leftWords(secondsLeft)}` : stageWords(stage);
}

const OWED: Record<string, string> = {
  analyze: 'Reading the prompt',
  plan: 'Planning the scenes',
  execute: 'Making it',
  render_final: 'Rendering the video',
};
const PHASES: Record<Phase, string> = {
  idle: 'Waiting to begin',
  question: 'Asks you something',
  plan: 'Plan to look at',
  executing: 'Making it',
  preview: 'Preview to look at',
  complete: 'Finished',
  error: 'Stopped',
};

type Asking = Pick<NonNullable<SessionState['question']>, 'customInput'> | null | undefined;

/** Whether an option says nothing by itself: it stands for what is said in own words. */
export function isForWords(question: Asking, option: string): boolean {
  return option === 'other' && Boolean(question?.customInput);
}

/** Whether there is nothing yet to answer a question with. */
export function isUnanswered(question: Asking, option: string, words: string): boolean {
  return !words.trim() && (!option || isForWords(question, option));
}

export interface Where {
  phase: Phase;
  owes?: Owes | null;
  approval?: unknown;
}

/** Where a session is, in words. */
export function phaseWords({ phase, owes, approval }: Where): string {
  if (approval) return 'Asks for your agreement';
  return (owes && OWED[owes]) || PHASES[phase];
}

/** Where a session is and what of it was finished last, as it is told to who does not see it. */
export function statusWords({ execution, ...where }: Where & Pick<SessionState, 'execution'>): string {
  const words = phaseWords(where);
  const todos = execution?.todos ?? [];
  const done = todos.filter(({ status }) => status === 'done');
  const last = done.at(-1);
  return where.owes === 'execute' && last ? `${words}: ${last.label}, done, ${done.length} of ${todos.length}` : words;
}

export type Mood = 'works' | 'waits' | 'finished' | 'stopped' | 'rests';

/** Whose turn it is: at work, waiting for a person, finished, stopped, or none of these. */
export function mood({ phase, owes, approval }: Where): Mood {
  if (approval) return 'waits';
  if (owes) return 'works';
  if (phase === 'error') return 'stopped';
  if (phase === 'complete') return 'finished';
  return phase === 'idle' ? 'rests' : 'waits';
}

/** Whether browsers play a format as a video. */
export function isPlayed(format: string | null | undefined): boolean {
  return ['mp4', 'webm'].includes(format ?? 'mp4');
}

/** What the final video is; one that was made before that was written is what was asked for last. */
export function formOf({ output, render }: Pick<SessionState, 'output' | 'render'>): { format: string; transparent: boolean; fps: number | undefined } {
  if (output?.format) return { format: output.format, transparent: output.transparent ?? false, fps: output.fps ?? undefined };
  return { format: render?.format ?? 'mp4', transparent: render?.transparent ?? false, fps: render?.fps };
}

/** What there is to see: the final video where browsers play it, the preview, or what was finished before another render began. */
export function shownOf(state: SessionState): Made | undefined {
  const final = state.output?.videoUrl && isPlayed(formOf(state).format) ? state.output : undefined;
  return final ?? state.preview ?? state.finished ?? undefined;
}
