/** What is being begun in the nodes of one canvas: it goes on while its node is not drawn, and is begun once. */
import type { Problem } from './http';

export interface Making {
  busy: boolean;
  problem?: Problem;
}

const NONE: Making = { busy: false };

export class Makings {
  private readonly held = new Map<string, Making>();
  private readonly watchers = new Set<() => void>();

  watch = (told: () => void): (() => void) => {
    this.watchers.add(told);
    return () => this.watchers.delete(told);
  };

  /** How it goes in a node; the same object until something changes. */
  of(nodeId: string): Making {
    return this.held.get(nodeId) ?? NONE;
  }

  /** Begin something in a node; nothing where that is under way. */
  async begin(nodeId: string, work: () => Promise<Problem | undefined>): Promise<void> {
    if (this.of(nodeId).busy) return;
    this.put(nodeId, { busy: true });
    try {
      const problem = await work();
      this.put(nodeId, problem && { busy: false, problem });
    } catch (error) {
      this.put(nodeId, undefined);
      throw error;
    }
  }

  private put(nodeId: string, making: Making | undefined): void {
    if (making) this.held.set(nodeId, making);
    else this.held.delete(nodeId);
    for (const told of [...this.watchers]) told();
  }
}
