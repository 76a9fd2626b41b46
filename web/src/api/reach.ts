/**
 * Whether the server is there, for the whole page. Where something is followed, its stream tells that; where nothing is, the
 * server is looked at now and then, and again and again once something was not answered.
 */
import type { QueryClient } from '@tanstack/react-query';
import { useSyncExternalStore } from 'react';
import { onProblem, Problem } from './client';
import { stream } from './stream';

export type Standing = 'there' | 'away' | 'stopping';

const NOW_AND_THEN_MS = 15_000;
const AGAIN_MS = 2_000;
const SILENT_MS = 10_000;

export class Reach {
  now: Standing = 'there';
  private readonly watchers = new Set<() => void>();
  private readonly waiting = new Set<() => void>();
  private timer: ReturnType<typeof setTimeout> | undefined;
  private doubted: ReturnType<typeof setTimeout> | undefined;
  private looking: Promise<void> | undefined;

  /** `isNeedless` says that nobody looks, or that somebody else tells it. */
  constructor(
    private readonly look: () => Promise<Standing>,
    private readonly isNeedless: () => boolean = () => false,
  ) {}

  watch = (told: () => void): (() => void) => {
    this.watchers.add(told);
    return () => this.watchers.delete(told);
  };

  /** Have something done whenever the server is back, or there after all. */
  whenBack = (act: () => void): (() => void) => {
    this.waiting.add(act);
    return () => this.waiting.delete(act);
  };

  /** Look now, and go on looking. */
  check = (): Promise<void> => (this.looking ??= this.checked());

  /** Something was not answered: where the server is there all the same, what failed has another try soon. */
  doubt = async (): Promise<void> => {
    await this.check();
    if (this.now !== 'there') return;
    this.doubted ??= setTimeout(() => {
      this.doubted = undefined;
      this.tellBack();
    }, AGAIN_MS);
  };

  /** Wait until it is there. */
  back = async (): Promise<void> => {
    await this.check();
    if (this.now === 'there') return;
    await new Promise<void>((done) => {
      const end = this.whenBack(() => {
        end();
        done();
      });
    });
  };

  /** Go on looking until this is ended. */
  begin = (): (() => void) => {
    this.timer ??= setTimeout(this.next, NOW_AND_THEN_MS);
    const anew = () => void this.check();
    const seen = () => void (this.isNeedless() || this.check());
    window.addEventListener('online', anew);
    window.addEventListener('offline', anew);
    document.addEventListener('visibilitychange', seen);
    return () => {
      clearTimeout(this.timer);
      this.timer = undefined;
      window.removeEventListener('online', anew);
      window.removeEventListener('offline', anew);
      document.removeEventListener('visibilitychange', seen);
    };
  };

  private readonly next = (): void => {
    if (this.now === 'there' && this.isNeedless()) this.timer = setTimeout(this.next, NOW_AND_THEN_MS);
    else void this.check();
  };

  private async checked(): Promise<void> {
    clearTimeout(this.timer);
    const before = this.now;
    this.now = await this.look().catch(() => 'away' as const);
    this.looking = undefined;
    this.timer = setTimeout(this.next, this.now === 'there' ? NOW_AND_THEN_MS : AGAIN_MS);
    if (this.now === before) return;
    for (const told of [...this.watchers]) told();
    if (this.now === 'there') this.tellBack();
  }

  private tellBack(): void {
    for (const act of [...this.waiting]) act();
  }
}

/** Ask the server whether it takes work; one that says itself what is wrong with it is there. */
async function look(): Promise<Standing> {
  const response = await fetch('/v1/ready', { cache: 'no-store', signal: AbortSignal.timeout(SILENT_MS) });
  const said = (await response.json().catch(() => undefined)) as { parts?: Record<string, string> } | undefined;
  if (said?.parts?.['draining']) return 'stopping';
  return response.ok || said?.parts ? 'there' : 'away';
}

export const reach = new Reach(look, () => stream.link === 'live' || document.hidden);

/** Whether a request was not answered by the server itself, or was by one that broke: it may go well later. */
export function isPassing(problem: unknown): boolean {
  return problem instanceof Problem && (problem.status === 0 || problem.status >= 500);
}

/** What was not answered for as long as the server was away. */
export class Unanswered {
  private waiting: Problem[] = [];
  private readonly over = new WeakSet<Problem>();
  private readonly watchers = new Set<() => void>();

  watch = (told: () => void): (() => void) => {
    this.watchers.add(told);
    return () => this.watchers.delete(told);
  };

  note(problem: Problem): void {
    if (problem.code === 'UNREACHABLE') this.waiting.push(problem);
  }

  /** The server is there: that it does not answer is true no more. */
  end = (): void => {
    for (const each of this.waiting) this.over.add(each);
    this.waiting = [];
    for (const told of [...this.watchers]) told();
  };

  /** A problem, as long as it holds. */
  still<P extends Problem>(problem: P | null | undefined): P | undefined {
    return problem && !this.over.has(problem) ? problem : undefined;
  }
}

const unanswered = new Unanswered();
reach.whenBack(unanswered.end);

/** A problem, which is none any more where it was that the server did not answer, and that is back. */
export function useStill(problem: Problem | null | undefined): Problem | undefined {
  return useSyncExternalStore(unanswered.watch, () => unanswered.still(problem));
}

onProblem((problem) => {
  unanswered.note(problem);
  if (problem.status === 0 || problem.code.startsWith('HTTP_50')) void reach.doubt();
});

/** Read once more what is shown and could not be read, also what waits for its next try. */
export async function readAgain(client: QueryClient): Promise<void> {
  const failed = client.getQueryCache().findAll({
    type: 'active',
    predicate: ({ state }) => (state.status === 'error' && isPassing(state.error)) || (state.fetchFailureCount > 0 && isPassing(state.fetchFailureReason)),
  });
  const isFailed = { type: 'active' as const, predicate: (each: (typeof failed)[number]) => failed.includes(each) };
  await client.cancelQueries(isFailed);
  await client.refetchQueries(isFailed);
}
