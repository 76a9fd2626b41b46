/**
 * The key of a request that is sent until it is answered.
 *
 * An answer that was lost may have been a yes: what is sent again unchanged is the same request, and what was changed,
 * or is asked for once more after an answer, is another one.
 */
import { newKey, Problem } from './client';

export class Attempt {
  private asked = '';
  private key = '';

  constructor(private readonly make: () => string = newKey) {}

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
