/**
 * What time it is for the server. A browser's own clock may be minutes off, and then what is told of the server's times by it
 * is nonsense: how long something takes, how long ago something was, when something ends.
 *
 * Each answer says at what second it was given. Between when it was asked for and when it came that second was somewhere, so
 * each narrows down by how much the two clocks differ. A browser's clock that may be right is taken to be.
 */

/** An answer's second is cut off, and servers look at their clock once a second for it. */
const COARSE_MS = 2000;

export class Clock {
  /** The least and the most by which the server's clock may be ahead, in milliseconds. */
  private least = -Infinity;
  private most = Infinity;

  constructor(private readonly own: () => number = Date.now) {}

  /** What to say when something is asked for, to be handed to `hear` with the answer. */
  ask(): number {
    return this.own();
  }

  /** Learn from the `Date` that an answer has; one of another origin may not be told. */
  hear(date: string | null, asked: number): void {
    const said = Date.parse(date ?? '');
    if (Number.isNaN(said)) return;
    const [least, most] = [said - this.own(), said + COARSE_MS - asked];
    const isOther = least > this.most || most < this.least; // one of the clocks was put right since
    this.least = isOther ? least : Math.max(least, this.least);
    this.most = isOther ? most : Math.min(most, this.most);
  }

  /** The time for the server, in milliseconds. */
  now = (): number => {
    const ahead = this.least > 0 || this.most < 0 ? (this.least + this.most) / 2 : 0;
    return this.own() + Math.round(ahead);
  };
}

/** The clock of the server that a page speaks to. */
export const clock = new Clock();
