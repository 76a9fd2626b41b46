/** Two live pages with one clock: both get the same orders, and the second is sought where it has fallen behind, or run ahead. */
import type { LivePage } from './live';
import type { How } from './moved';

const FAR_FRAMES = 4;
const SETTLED_MS = 1000;

export class PagePair {
  private how: How | undefined;
  private began = false;
  private corrected = -Infinity;

  constructor(
    readonly first: LivePage,
    readonly second: LivePage,
    private readonly fps: number,
    private readonly now: () => number = () => performance.now(),
  ) {}

  /** Hear what both say, for as long as they are looked at. */
  open = (): (() => void) => {
    const ends = [this.first, this.second].map((each) => each.watch(this.said));
    return () => ends.forEach((end) => end());
  };

  seek = (time: number): void => {
    this.how = undefined;
    this.first.seek(time);
    this.second.seek(time);
  };

  play = (how: How): void => {
    [this.how, this.began, this.corrected] = [how, false, this.now()];
    this.second.seek(this.first.shown.time);
    this.first.play(how);
    this.second.play(how);
  };

  pause = (): void => {
    this.first.pause();
    this.second.pause();
  };

  private readonly said = (): void => {
    const { how, first, second } = this;
    if (!how) return;
    if (!first.shown.playing) {
      if (!this.began) return;
      this.how = undefined;
      second.seek(first.shown.time); // it stands where the first does
      return;
    }
    this.began = true;
    const frames = Math.abs(second.shown.time - first.shown.time) * this.fps;
    if (frames <= FAR_FRAMES * Math.max(1, Math.abs(how.rate)) || this.now() - this.corrected < SETTLED_MS) return;
    this.corrected = this.now();
    second.seek(first.shown.time);
    second.play(how);
  };
}
