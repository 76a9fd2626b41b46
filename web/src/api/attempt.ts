/**
 * The key of a request that is sent until it is answered.
 *
 * An answer that was lost may have been a yes: what is sent again unchanged is the same request, and what was changed,
 * or is asked for once more after an answer, is another one.
 */
import { newKey, Problem } from './client';

/** What was sent and not answered, and under which key; nothing where the key is empty. */
export interface Sent {
  asked: string;
  key: string;
}

export class Attempt {
  private asked = '';
  private key = '';

  constructor(private readonly make: () => string = newKey) {}

  /** What a page that is loaded anew goes on from. */
  get sent(): Sent {
    return { asked: this.key && this.asked, key: this.key };
  }

  /** Go on from what was sent before. */
  restore({ asked, key }: Sent): void {
    this.asked = asked;
    this.key = key;
  }

  /** The key under which something is sent. */
  keyOf(body: unknown): string {
    const asked = JSON.stringify(body);
    if (this.key === '' || this.asked !== asked) {
      this.asked = asked;
      this.key = this.make();
    }
    return this.key;
  }

  /** Tell how it ended: with an answer, of yes or no, or with a problem that leaves that open. */
  ended(problem?: unknown): void {
    const isOpen = problem instanceof Problem ? problem.status === 0 || problem.status >= 500 : problem !== undefined;
    if (!isOpen) this.key = '';
  }
}
