/**
 * Two videos with one clock: the first is moved by frames as any is (`Reel`), the second follows it.
 *
 * While they stand, both show the frame that was sought. While they play, each says with every frame that it draws which one that
 * is (`requestVideoFrameCallback`); a second one that is a little early or late is played slower or faster until it is there, one
 * that is far off is sought.
 */
import type { How } from './moved';
import { Reel } from './reel';

/** The frame that a video drew, in seconds of the video, and when, in milliseconds of the page. */
export interface Drawn {
  time: number;
  at: number;
}

const FAR_FRAMES = 6;
const NEAR_FRAMES = 0.5;
const CORRECTED = 0.15;

/** How fast the second is to be played; undefined where it is so far off that it is sought. `apart` is by how much it is ahead, in seconds. */
export function corrected(apart: number, rate: number, fps: number): number | undefined {
  const frames = Math.abs(apart) * fps;
  if (frames > FAR_FRAMES * Math.max(1, rate)) return undefined;
  if (frames <= NEAR_FRAMES) return rate;
  return rate * (1 - Math.sign(apart) * CORRECTED);
}

/** By how much the second is ahead of the first, had both drawn at one moment. */
export function apart(first: Drawn, second: Drawn, rate: number): number {
  return second.time - (first.time + ((second.at - first.at) / 1000) * rate);
}

/** Whether the browser tells which frame a video draws. */
export function tells(video: object): boolean {
  return 'requestVideoFrameCallback' in video;
}

export class Pair {
  readonly first: Reel;
  private second: HTMLVideoElement | null = null;
  private leading: HTMLVideoElement | null = null;
  private drawn: Drawn | undefined;
  private rate = 0;
  private isLate = false;
  private readonly ends = new Set<() => void>();

  constructor(private readonly fps: number) {
    this.first = new Reel(fps);
  }

  attachFirst = (video: HTMLVideoElement | null): void => {
    this.first.attach(video);
    this.leading = video;
    this.listen(video, (drawn) => (this.drawn = drawn));
  };

  attachSecond = (video: HTMLVideoElement | null): void => {
    this.second = video;
    this.listen(video, this.follow);
    if (video) this.stand(this.first.shown.time);
  };

  seek = (time: number): void => {
    this.rate = 0;
    this.first.seek(time);
    this.second?.pause();
    this.stand(time);
  };

  play = (how: How): void => {
    this.first.play(how);
    const { second, leading } = this;
    this.rate = Math.max(0, how.rate);
    this.drawn = undefined;
    if (!second || !leading) return;
    if (this.rate === 0) return second.pause(); // backwards the first is sought, and so is the second, by `shown`
    second.playbackRate = this.rate;
    second.currentTime = leading.currentTime;
    void second.play().catch(() => this.pause());
  };

  pause = (): void => {
    this.rate = 0;
    this.first.pause();
    this.second?.pause();
    this.stand(this.first.shown.time);
  };

  /** What the first shows has changed: where it is sought rather than played, the second is too; where it stopped by itself, it stands. */
  shown = (): void => {
    const { time, playing } = this.first.shown;
    if (this.rate > 0 && !playing) {
      this.rate = 0;
      this.second?.pause();
    }
    if (this.rate === 0) this.stand(time);
    else this.keepUp();
  };

  /** The second shows a frame that it was sent to: where another was sought meanwhile, it goes on to that. */
  settled = (): void => {
    if (!this.isLate) return;
    this.isLate = false;
    if (this.rate === 0) this.stand(this.first.shown.time);
  };

  close = (): void => {
    this.ends.forEach((end) => end());
    this.ends.clear();
  };

  private readonly follow = (drawn: Drawn): void => {
    const { second, leading, drawn: first, rate } = this;
    if (!second || !leading || !first || rate === 0 || second.seeking || leading.seeking) return;
    const speed = corrected(apart(first, drawn, rate), rate, this.fps);
    if (speed === undefined) second.currentTime = leading.currentTime;
    else if (second.playbackRate !== speed) second.playbackRate = speed;
    if (second.paused && !second.ended) void second.play().catch(() => undefined);
  };

  /** What says nothing by itself while it plays: a second one that is over, or a browser that does not tell what it draws. */
  private keepUp(): void {
    const { second, leading } = this;
    if (!second || !leading || leading.seeking) return;
    if (second.ended && leading.currentTime < second.currentTime - FAR_FRAMES / this.fps) {
      second.currentTime = leading.currentTime;
      void second.play().catch(() => undefined);
    } else if (!tells(second)) {
      const at = performance.now();
      this.drawn = { time: leading.currentTime, at };
      this.follow({ time: second.currentTime, at });
    }
  }

  /** Have the second show the frame that begins at a time. */
  private stand(time: number): void {
    const { second, fps } = this;
    if (!second) return;
    if (second.seeking) {
      this.isLate = true;
      return;
    }
    const wanted = time + 0.5 / fps;
    if (Math.abs(second.currentTime - wanted) > 0.01 / fps) second.currentTime = wanted;
  }

  /** Hear of each frame that a video draws, for as long as this is open. */
  private listen(video: HTMLVideoElement | null, hear: (drawn: Drawn) => void): void {
    if (video && tells(video)) this.ends.add(eachDrawn(video, hear));
  }
}

/** Hear of each frame that a video draws, where it `tells`, until this is ended. */
export function eachDrawn(video: HTMLVideoElement, hear: (drawn: Drawn) => void): () => void {
  let waiting = 0;
  const again = () => {
    waiting = video.requestVideoFrameCallback((_, { mediaTime, expectedDisplayTime }) => {
      again();
      hear({ time: mediaTime, at: expectedDisplayTime });
    });
  };
  again();
  return () => video.cancelVideoFrameCallback(waiting);
}
