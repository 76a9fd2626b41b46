/**
 * Several videos with one clock: the longest leads, and each other one is played slower or faster, or sought, until it is where that is,
 * as the second of a `Pair` is. One that is over waits until all begin anew. Who stops one stops all, and who moves the one that leads
 * moves all.
 */
import { apart, corrected, type Drawn, eachDrawn, tells } from './pair';

/** Frames of what is only compared by eye, however many there are. */
const FPS = 30;

export class Chorus {
  isPlaying = false;
  private all: readonly HTMLVideoElement[] = [];
  private drawn: Drawn | undefined;
  private readonly ends = new Set<() => void>();
  private readonly watchers = new Set<() => void>();

  watch = (told: () => void): (() => void) => {
    this.watchers.add(told);
    return () => this.watchers.delete(told);
  };

  /** Play all of them from their beginning, round and round. */
  play(videos: readonly HTMLVideoElement[]): void {
    this.close();
    this.all = [...videos].sort((one, other) => (other.duration || 0) - (one.duration || 0));
    const [first, ...others] = this.all;
    if (!first) return;
    for (const video of this.all) {
      video.loop = false; // each would begin anew by itself
      video.playbackRate = 1;
      this.hear(video, 'pause', () => (video.paused && !video.ended ? this.pause() : undefined));
    }
    this.hear(first, 'ended', this.begin);
    this.hear(first, 'seeked', () => others.forEach((video) => this.bring(video)));
    this.listen(first, (drawn) => (this.drawn = drawn));
    for (const video of others) this.listen(video, (drawn) => this.follow(video, drawn));
    this.tell(true);
    this.begin();
  }

  /** Have all of them stand, where the first does. */
  pause = (): void => {
    const [first, ...others] = this.all;
    if (!first) return;
    this.close();
    first.pause();
    for (const video of others) {
      video.pause();
      video.currentTime = first.currentTime;
    }
  };

  /** Let go of them: each is moved by itself again. */
  close = (): void => {
    this.ends.forEach((end) => end());
    this.ends.clear();
    for (const video of this.all) [video.loop, video.playbackRate] = [true, 1];
    [this.all, this.drawn] = [[], undefined];
    if (this.isPlaying) this.tell(false);
  };

  private readonly begin = (): void => {
    this.drawn = undefined;
    for (const video of this.all) {
      video.currentTime = 0;
      void video.play().catch(() => undefined); // what cannot be played says so by itself
    }
  };

  private readonly follow = (video: HTMLVideoElement, drawn: Drawn): void => {
    const [first] = this.all;
    if (!first || !this.drawn || first.seeking || first.ended || video.seeking || video.ended) return;
    const rate = first.playbackRate;
    const speed = corrected(apart(this.drawn, drawn, rate), rate, FPS);
    if (speed === undefined) this.bring(video);
    else if (video.playbackRate !== speed) video.playbackRate = speed;
  };

  private bring(video: HTMLVideoElement): void {
    const [first] = this.all;
    if (!first || first.ended) return;
    video.currentTime = first.currentTime;
    if (video.paused) void video.play().catch(() => undefined);
  }

  /** Hear of each frame that a video draws, or where the browser does not tell, where it is now and again. */
  private listen(video: HTMLVideoElement, hear: (drawn: Drawn) => void): void {
    if (tells(video)) this.ends.add(eachDrawn(video, hear));
    else this.hear(video, 'timeupdate', () => hear({ time: video.currentTime, at: performance.now() }));
  }

  private hear(video: HTMLVideoElement, event: string, hear: () => void): void {
    video.addEventListener(event, hear);
    this.ends.add(() => video.removeEventListener(event, hear));
  }

  private tell(isPlaying: boolean): void {
    this.isPlaying = isPlaying;
    for (const told of this.watchers) told();
  }
}
