/**
 * What was just deleted and can be had back.
 *
 * The server does both: it holds a deletion back for a time, whatever becomes of this page. Here is only what is seen of
 * it: a session vanishes at once, and comes back where the server did not delete it, or has it restored.
 */
import type { QueryClient } from '@tanstack/react-query';
import { useSyncExternalStore } from 'react';
import { ask, Problem } from './client';
import { atChange } from './owner';

export interface Deletion {
  id: string;
  title: string;
  /** What stood beside it, for whoever goes on from there. */
  beside?: string | undefined;
  byKeys?: boolean;
  problem?: string;
  /** Whether it can be tried once more to have it back, though there was a problem. */
  canUndo?: boolean;
  isComingBack?: boolean;
}

/** For so long the server keeps it: much longer than what offers to undo it is seen. */
const UNDO_S = 600;
const SESSIONS = ['sessions'];
const NO_ANSWER = 0;
const NOT_THERE = 404;

type Ask = typeof ask;

export class Deletions {
  shown: readonly Deletion[] = [];
  /** The last thing that happened, in words. */
  said = '';
  private readonly hidden = new Set<string>();
  private readonly sent = new Map<string, Promise<unknown>>();
  private readonly watchers = new Set<() => void>();
  private readonly hearers = new Set<(id: string) => void>();

  private owner = {};

  constructor(private readonly ask: Ask) {}

  watch = (told: () => void): (() => void) => {
    this.watchers.add(told);
    return () => this.watchers.delete(told);
  };

  /** Hear of each that is back. */
  hear(heard: (id: string) => void): void {
    this.hearers.add(heard);
  }

  isHidden = (id: string): boolean => this.hidden.has(id);

  /** Delete a session: it is gone from lists at once. */
  async remove(deletion: Deletion, client: QueryClient): Promise<void> {
    const { id, title } = deletion;
    if (this.hidden.has(id)) return;
    this.hidden.add(id);
    this.show([...this.without(id), deletion], `Deleted: ${title}. To undo it, press Control and Z.`);
    const { owner } = this;
    const sent = this.ask(`/v1/sessions/${id}?undoS=${UNDO_S}`, { method: 'DELETE' });
    this.sent.set(id, sent);
    try {
      await sent;
    } catch (error) {
      if (owner !== this.owner) return;
      this.sent.delete(id);
      this.hidden.delete(id);
      if (!(error instanceof Problem) || error.status !== NO_ANSWER) {
        this.fail({ id, title }, `“${title}” was not deleted. ${wordsOf(error)}`);
        return;
      }
      // it may have been: lists say so, and to have back what is there does no harm
      if (!this.shown.find((each) => each.id === id)?.isComingBack)
        this.fail({ ...deletion, byKeys: false, canUndo: true }, `“${title}” may be deleted. ${wordsOf(error)}`);
      await client.invalidateQueries({ queryKey: SESSIONS });
      return;
    }
    if (owner !== this.owner) return;
    client.removeQueries({ queryKey: SESSIONS, type: 'inactive' }); // they would show it for a moment
    await client.invalidateQueries({ queryKey: SESSIONS });
    if (!this.shown.find((each) => each.id === id)?.isComingBack) this.hidden.delete(id);
  }

  /** Have a session back; says whether it is. */
  async undo(id: string, client: QueryClient): Promise<boolean> {
    const there = this.shown.find((each) => each.id === id);
    const title = there?.title ?? '';
    const { owner } = this;
    this.change(id, { isComingBack: true });
    await this.sent.get(id)?.catch(() => undefined); // what was not deleted is there, which restoring finds as well
    try {
      await this.ask(`/v1/sessions/${id}/restore`, { method: 'POST' });
    } catch (error) {
      if (owner !== this.owner) return false;
      const canUndo = !(error instanceof Problem) || error.status !== NOT_THERE;
      const failed = { ...(there ?? { id, title }), byKeys: false, isComingBack: false, canUndo };
      this.fail(failed, `“${title}” did not come back. ${wordsOf(error)}`);
      // it is back all the same, where only the answer was lost
      void client.invalidateQueries({ queryKey: SESSIONS }).then(() => this.hidden.delete(id));
      return false;
    }
    if (owner !== this.owner) return false;
    this.sent.delete(id);
    this.hidden.delete(id);
    for (const heard of this.hearers) heard(id);
    await client.invalidateQueries({ queryKey: SESSIONS });
    this.show(this.without(id), `It is back: ${title}`);
    return true;
  }

  /** Say no more that something was deleted. */
  leave(id: string): void {
    this.sent.delete(id);
    this.show(this.without(id), this.said);
  }

  /** It is another person's page: nothing is said there of what somebody deleted, also of what is answered only now. */
  forget(): void {
    this.owner = {};
    this.hidden.clear();
    this.sent.clear();
    this.show([], '');
  }

  private without(id: string): readonly Deletion[] {
    return this.shown.filter((each) => each.id !== id);
  }

  /** Say what did not happen, also where nothing was said of it any more. */
  private fail(deletion: Deletion, problem: string): void {
    this.show([...this.without(deletion.id), { ...deletion, problem }], problem);
  }

  private change(id: string, what: Partial<Deletion>): void {
    this.show(this.shown.map((each) => (each.id === id ? { ...each, ...what } : each)), this.said);
  }

  private show(shown: readonly Deletion[], said: string): void {
    this.shown = shown;
    this.said = said;
    for (const told of this.watchers) told();
  }
}

function wordsOf(error: unknown): string {
  return error instanceof Problem ? error.message : String(error);
}

export const deletions = new Deletions(ask);
atChange(() => deletions.forget());
export const isHidden = deletions.isHidden;

/** Whether it can be asked for now to have something back. */
export function canUndo({ problem, canUndo: again, isComingBack }: Deletion): boolean {
  return !isComingBack && (!problem || Boolean(again));
}

export function useDeleted(): readonly Deletion[] {
  return useSyncExternalStore(deletions.watch, () => deletions.shown);
}
