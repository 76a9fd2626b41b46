import { expect, test } from 'vitest';
import { Chorus } from './chorus';

type Callback = (now: number, drawn: { mediaTime: number; expectedDisplayTime: number }) => void;

/** What a chorus knows of a video. */
class Played extends EventTarget {
  currentTime = 0;
  paused = true;
  ended = false;
  seeking = false;
  playbackRate = 1;
  loop = true;
  private callback: Callback | undefined;

  constructor(readonly duration: number) {
    super();
  }

  play() {
    [this.paused, this.ended] = [false, false];
    return Promise.resolve();
  }

  pause() {
    if (this.paused) return;
    this.paused = true;
    this.dispatchEvent(new Event('pause'));
  }

  requestVideoFrameCallback(callback: Callback) {
    this.callback = callback;
    return 1;
  }

  cancelVideoFrameCallback() {
    this.callback = undefined;
  }

  /** Draw the frame of a time, as many milliseconds after the page began. */
  draw(time: number, at: number) {
    this.currentTime = time;
    this.callback?.(at, { mediaTime: time, expectedDisplayTime: at });
  }

  end() {
    [this.currentTime, this.paused, this.ended] = [this.duration, true, true];
    this.dispatchEvent(new Event('pause'));
    this.dispatchEvent(new Event('ended'));
  }
}

function sung(...lengths: number[]) {
  const videos = lengths.map((length) => new Played(length));
  const chorus = new Chorus();
  chorus.play(videos as unknown as HTMLVideoElement[]);
  return { chorus, videos };
}

test('who falls behind or runs ahead is played faster or slower, and sought where that would take long', () => {
  const { videos } = sung(5, 4, 4);
  const [first, second, third] = videos as [Played, Played, Played];
  expect(videos.every(({ paused, loop }) => !paused && !loop)).toBe(true);
  first.draw(1, 1000);
  second.draw(0.9, 1000);
  expect(second.playbackRate).toBeGreaterThan(1);
  third.draw(1.1, 1000);
  expect(third.playbackRate).toBeLessThan(1);
  second.draw(1, 1000);
  expect(second.playbackRate).toBe(1);
  third.draw(3, 1000);
  expect(third.currentTime).toBe(1);
});

test('one that is over waits until the longest is, and all begin anew', () => {
  const { chorus, videos } = sung(4, 5);
  const [short, long] = videos as [Played, Played];
  short.end();
  long.draw(4.5, 4500);
  expect(chorus.isPlaying).toBe(true);
  expect(short.paused).toBe(true);
  long.end();
  expect(videos.map(({ currentTime, paused }) => [currentTime, paused])).toEqual([[0, false], [0, false]]); // prettier-ignore
});

test('who stops one stops all of them at one place, and each is moved by itself again', () => {
  const { chorus, videos } = sung(5, 5);
  const [first, second] = videos as [Played, Played];
  first.draw(2, 2000);
  second.draw(1.98, 2000);
  const told: boolean[] = [];
  chorus.watch(() => told.push(chorus.isPlaying));
  second.pause();
  expect(told).toEqual([false]);
  expect(videos.map(({ currentTime, paused, loop }) => [currentTime, paused, loop])).toEqual([[2, true, true], [2, true, true]]); // prettier-ignore
  void second.play();
  second.pause();
  expect(told).toEqual([false]);
});
