import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { Reel } from './reel';

/** What a reel knows of a video. */
class Played {
  currentTime = 0;
  paused = true;
  ended = false;
  seeking = false;
  playbackRate = 1;
  loads = 0;
  private refuse: ((why: Error) => void) | undefined;

  play() {
    this.paused = false;
    return new Promise<void>((_, refuse) => (this.refuse = refuse));
  }

  pause() {
    this.paused = true;
  }

  load() {
    this.loads += 1;
    [this.currentTime, this.paused, this.playbackRate] = [0, true, 1];
    this.refuse?.(new Error('the load was interrupted'));
  }
}

beforeEach(() => {
  vi.stubGlobal('requestAnimationFrame', () => 1);
  vi.stubGlobal('cancelAnimationFrame', () => {});
});
afterEach(() => vi.unstubAllGlobals());

function reeled() {
  const video = new Played();
  const reel = new Reel(60);
  reel.attach(video as unknown as HTMLVideoElement);
  return { video, reel };
}

test('a video that is fetched anew plays on where it was, as fast as it did', async () => {
  const { video, reel } = reeled();
  reel.seek(2);
  reel.play({ rate: 0.5, from: 0, to: 5, loop: true });
  reel.again();
  await Promise.resolve(); // what was begun before was refused by now
  expect(video).toMatchObject({ loads: 1, currentTime: 2 + 0.5 / 60, paused: false, playbackRate: 0.5 });
  expect(reel.shown).toEqual({ time: 2, playing: true });
});

test('one that stood shows the same frame, whether it was sought or drawn', async () => {
  const { video, reel } = reeled();
  reel.seek(2);
  reel.again();
  expect(video).toMatchObject({ loads: 1, currentTime: 2 + 0.5 / 60, paused: true });
  reel.seen(); // it stands in the middle of its frame
  reel.again();
  expect(video.currentTime).toBeCloseTo(2 + 0.5 / 60);
  expect(reel.shown.playing).toBe(false);
});

test('where the first try made it stand, it plays on as it did before that', () => {
  const { video, reel } = reeled();
  reel.play({ rate: 1, from: 0, to: 5, loop: true });
  const was = reel.shown;
  reel.pause();
  reel.again(was);
  expect(video.paused).toBe(false);
  expect(reel.shown.playing).toBe(true);
});

test('what stands is said to be where its frame begins, and is in the middle of it', () => {
  const { video, reel } = reeled();
  reel.play({ rate: 1, from: 0, to: 5, loop: true });
  video.currentTime = 1.999 / 60;
  reel.pause();
  expect(reel.shown).toEqual({ time: 1 / 60, playing: false });
  expect(video.currentTime).toBeCloseTo(1.5 / 60);
  reel.seen();
  expect(reel.shown.time).toBe(1 / 60);
});

test('a video that comes shows the frame that is said, unless it plays by then', () => {
  const { video, reel } = reeled();
  reel.ready();
  expect(video.currentTime).toBe(0.5 / 60);
  expect(reel.hasPainted).toBe(false);
  reel.seen();
  expect(reel.hasPainted).toBe(true);
  reel.play({ rate: 1, from: 0, to: 5, loop: true });
  video.currentTime = 3;
  reel.ready();
  expect(video.currentTime).toBe(3);
});
