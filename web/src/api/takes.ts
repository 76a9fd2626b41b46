/** Several takes of one prompt: which of them are still being made, and what came of stopping all of those. */
import { useEffect, useSyncExternalStore } from 'react';
import { Problem } from './client';
import { sentence } from './working';

/** Whether agents are at it, or wait in the middle of it for a person's agreement. */
export function isBeingMade({ owes, approval }: { owes?: unknown; approval?: unknown }): boolean {
  return Boolean(owes ?? approval);
}

/** What came of asking one take to stop: what the server answered, or what was wrong. */
export interface Asked {
  id: string;
  name: string;
  answer?: { result?: Record<string, unknown> };
  problem?: unknown;
}

/** What became of all that were to be stopped, in words: of whom nothing is to be said, they are stopped. */
export interface Stopped {
  count: number;
  /** What is otherwise than it was asked for, each of one take. */
  others: string[];
  /** Whether one of these goes on though it should not. */
  isBad: boolean;
}

/**
 * Say honestly what was stopped.
 *
 * @param asked Each take that was asked to stop, with its answer.
 * @param stillMade Which of them are being made all the same, as they were read after that; undefined where they could not be.
 */
export function stopped(asked: readonly Asked[], stillMade: ReadonlySet<string> | undefined): Stopped {
  const found: Stopped = { count: 0, others: [], isBad: false };
  for (const { id, name, answer, problem } of asked) {
    const isMade = stillMade?.has(id);
    if (problem !== undefined && isMade !== false) {
      found.others.push(`${name} ${isUnanswered(problem) ? 'may go on' : 'was not stopped'}: ${sentence(wordsOf(problem))}`);
      found.isBad = true;
    } else if (problem !== undefined) found.others.push(`${name} is not being made any more.`);
    else if (isMade && answer?.result?.['waits']) found.others.push(`${name} cannot be reached just now: it stops as soon as it can be.`);
    else found.count += 1;
  }
  return found;
}

/** How many were stopped, in words. */
export function stopWords({ count, others }: Stopped): string {
  const words = count === 0 ? '' : count === 1 ? 'One take was stopped.' : `${count} takes were stopped.`;
  return [words, ...others].filter(Boolean).join(' ');
}

function isUnanswered(problem: unknown): boolean {
  return problem instanceof Problem && problem.status === 0;
}

function wordsOf(problem: unknown): string {
  return problem instanceof Error ? problem.message : String(problem);
}

/** Places that are few: those have them who asked first. */
export class Places {
  private asking: readonly string[] = [];
  private readonly watchers = new Set<() => void>();

  constructor(private readonly count: number) {}

  watch = (told: () => void): (() => void) => {
    this.watchers.add(told);
    return () => this.watchers.delete(told);
  };

  /** Ask for one; returns what leaves it to others. */
  ask(who: string): () => void {
    this.set([...this.asking, who]);
    return () => this.set(this.asking.filter((each) => each !== who));
  }

  has(who: string): boolean {
    const at = this.asking.indexOf(who);
    return at >= 0 && at < this.count;
  }

  private set(asking: readonly string[]): void {
    this.asking = asking;
    for (const told of [...this.watchers]) told();
  }
}

/** Whether one of a few places is somebody's, who wants it for as long as it is said. */
export function usePlace(places: Places, who: string, wants: boolean): boolean {
  useEffect(() => (wants ? places.ask(who) : undefined), [places, who, wants]);
  return useSyncExternalStore(places.watch, () => places.has(who));
}
