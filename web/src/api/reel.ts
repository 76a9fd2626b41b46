/**
 * A video, moved by frames: to the very one that is named, backwards as well, and within a part of it.
 *
 * At a frame's very beginning a browser may show the one before, so a frame is sought in its middle; what stands is said to be
 * where its frame begins. No browser plays backwards: there it is sought, one frame after the other, as fast as it follows.
 */
import { around, beginning, type How } from './moved';
import { frameAt } from './timecode';

interface Shown {
  time: number;
  playing: boolean;
}

export class Reel {
  shown: Shown = { time: 0, playing: false };
  /** Whether the video has shown a frame of its own yet. */
  hasPainted = false;
  private readonly watchers = new Set<() => void>();
  private video: HTMLVideoElement | null = null;
  private how: How | undefined;
  private looking = 0;
  private begun = 0;

  constructor(private readonly fps: number) {}

  watch = (told: () => void): (() => void) => {
    this.watchers.add(told);
    return () => this.watchers.delete(told);
  };

  /** Have this video be the one that is moved; null for none. */
  attach = (video: HTMLVideoElement | null): void => {
    if (video === null) this.stop();
    this.video = video;
    this.hasPainted = false;
  };

  seek = (time: number): void => {
    this.pause();
    this.put(time);
  };

  play = (how: How): void => {
    const { video } = this;
    if (!video) return;
    this.how = how;
    const from = beginning(this.shown.time, how, this.fps);
    if (from !== this.shown.time) this.put(from);
    if (how.rate > 0) {
      video.playbackRate = how.rate;
      this.begin(video); // what cannot be played says so by itself
    } else video.pause();
    this.show({ playing: true });
    if (this.looking === 0) this.look(performance.now());
  };

  pause = (): void => {
    const { video } = this;
    this.stop();
    video?.pause();
    if (!this.shown.playing) return;
    if (video) this.put(this.frameOf(video)); // where it stopped it may show the frame before, or the next one
    this.show({ playing: false });
  };

  /** Fetch the video anew, from an address that may have changed meanwhile, and go on with it as it was. */
  again = ({ time, playing }: Shown = this.shown): void => {
    const { video, how } = this;
    if (!video) return;
    this.begun += 1; // what was begun with the old one ends with it, which is nobody's pause
    this.hasPainted = false;
    video.load();
    video.currentTime = (frameAt(time, this.fps) + 0.5) / this.fps;
    if (!playing || !how) return this.pause();
    if (how.rate > 0) {
      video.playbackRate = how.rate;
      this.begin(video);
    }
    if (!this.shown.playing) this.show({ playing: true });
    if (this.looking === 0) this.look(performance.now());
  };

  /** The video can be moved: from now on it shows the frame that is said, and no poster, which may be of another one. */
  ready = (): void => {
    if (!this.shown.playing) this.put(this.shown.time);
  };

  /** The video shows a frame that was sought, or one that it came to by itself. */
  seen = (): void => {
    const { video } = this;
    if (!video) return;
    this.hasPainted = true;
    if (!this.shown.playing) this.show({ time: this.frameOf(video) });
  };

  /** The browser stopped it: where nobody asked for that, it stands. */
  stopped = (): void => {
    const { video, how } = this;
    if (this.shown.playing && how && how.rate > 0 && video?.paused && !video.ended) this.pause();
  };

  /** It came to its end by itself. */
  ended = (): void => {
    if (this.how && this.shown.playing) this.goOn(this.how.to); // the file may be shorter than it is said to be
  };

  private begin(video: HTMLVideoElement): void {
    const begun = (this.begun += 1);
    void video.play().catch(() => (begun === this.begun ? this.pause() : undefined));
  }

  private put(time: number): void {
    if (!this.video) return;
    this.video.currentTime = time + 0.5 / this.fps;
    this.show({ time });
  }

  /** When the frame begins that a video is in. */
  private frameOf({ currentTime }: HTMLVideoElement): number {
    return frameAt(currentTime, this.fps) / this.fps;
  }

  private look(now: number): void {
    this.looking = requestAnimationFrame((next) => {
      const { video, how } = this;
      if (!video || !how) return;
      const elapsed = Math.min((next - now) / 1000, 0.1);
      this.look(next);
      if (how.rate > 0) {
        if (video.seeking || video.ended) return;
        if (video.currentTime < how.to) this.show({ time: video.currentTime });
        else this.goOn(video.currentTime);
      } else this.goOn(this.shown.time + elapsed * how.rate);
    });
  }

  private goOn(time: number): void {
    const { video, how } = this;
    if (!video || !how) return;
    const next = around(time, how);
    if (next === undefined) {
      const over = how.rate < 0 ? how.from : Math.max(how.from, how.to - 1 / this.fps);
      this.pause();
      this.put(over);
    } else if (how.rate > 0) {
      this.put(how.from);
      if (video.paused) this.begin(video);
    } else {
      if (!video.seeking) video.currentTime = next + 0.5 / this.fps;
      this.show({ time: next });
    }
  }

  private stop(): void {
    cancelAnimationFrame(this.looking);
    this.looking = 0;
  }

  private show(what: Partial<Shown>): void {
    this.shown = { ...this.shown, ...what };
    for (const watcher of this.watchers) watcher();
  }
}
