/**
 * What was just deleted and can be had back.
 *
 * The server does both: it holds a deletion back for a time, whatever becomes of this page. Here is only what is seen of
 * it: a session vanishes at once, and comes back where the server did not delete it, or has it restored.
 */
import type { QueryClient } from '@tanstack/react-query';
import { useSyncExternalStore } from 'react';
import { ask, Problem } from './client';

export interface Deletion {
  id: string;
  title: string;
  /** What stood beside it, for whoever goes on from there. */
  beside?: string | undefined;
  byKeys?: boolean;
  problem?: string;
  isComingBack?: boolean;
}

/** For so long the server keeps it: much longer than what offers to undo it is seen. */
const UNDO_S = 600;
const SESSIONS = ['sessions'];

type Ask = typeof ask;

export class Deletions {
  shown: readonly Deletion[] = [];
  /** The last thing that happened, in words. */
  said = '';
  private readonly hidden = new Set<string>();
  private readonly sent = new Map<string, Promise<unknown>>();
  private readonly watchers = new Set<() => void>();

  constructor(private readonly ask: Ask) {}

  watch = (told: () => void): (() => void) => {
    this.watchers.add(told);
    return () => this.watchers.delete(told);
  };

  isHidden = (id: string): boolean => this.hidden.has(id);

  /** Delete a session: it is gone from lists at once. */
  async remove(deletion: Deletion, client: QueryClient): Promise<void> {
    const { id, title } = deletion;
    if (this.hidden.has(id)) return;
    this.hidden.add(id);
    this.show([...this.without(id), deletion], `Deleted: ${title}. To undo it, press Control and Z.`);
    const sent = this.ask(`/v1/sessions/${id}?undoS=${UNDO_S}`, { method: 'DELETE' });
    this.sent.set(id, sent);
    try {
      await sent;
    } catch (error) {
      this.sent.delete(id);
      this.hidden.delete(id);
      this.fail(id, title, `“${title}” was not deleted. ${wordsOf(error)}`);
      return;
    }
    client.removeQueries({ queryKey: SESSIONS, type: 'inactive' }); // they would show it for a moment
    await client.invalidateQueries({ queryKey: SESSIONS });
    if (!this.shown.find((each) => each.id === id)?.isComingBack) this.hidden.delete(id);
  }

  /** Have a session back; says whether it is. */
  async undo(id: string, client: QueryClient): Promise<boolean> {
    const title = this.shown.find((each) => each.id === id)?.title ?? '';
    this.change(id, { isComingBack: true });
    try {
      await this.sent.get(id);
      await this.ask(`/v1/sessions/${id}/restore`, { method: 'POST' });
    } catch (error) {
      this.fail(id, title, `“${title}” did not come back. ${wordsOf(error)}`);
      return false;
    }
    this.sent.delete(id);
    this.hidden.delete(id);
    await client.invalidateQueries({ queryKey: SESSIONS });
    this.show(this.without(id), `It is back: ${title}`);
    return true;
  }

  /** Say no more that something was deleted. */
  leave(id: string): void {
    this.sent.delete(id);
    this.show(this.without(id), this.said);
  }

  private without(id: string): readonly Deletion[] {
    return this.shown.filter((each) => each.id !== id);
  }

  /** Say what did not happen, also where nothing was said of it any more. */
  private fail(id: string, title: string, problem: string): void {
    this.show([...this.without(id), { id, title, problem }], problem);
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
export const isHidden = deletions.isHidden;

export function useDeleted(): readonly Deletion[] {
  return useSyncExternalStore(deletions.watch, () => deletions.shown);
}
