import { describe, expect, it, vi } from 'vitest';
import { apart, corrected, Pair } from './pair';

describe('apart', () => {
  it('counts what the first has gone on since it drew', () => {
    expect(apart({ time: 1, at: 1000 }, { time: 1.02, at: 1020 }, 1)).toBeCloseTo(0);
    expect(apart({ time: 1, at: 1000 }, { time: 1.05, at: 1010 }, 2)).toBeCloseTo(0.03);
    expect(apart({ time: 1, at: 1000 }, { time: 0.9, at: 1000 }, 1)).toBeCloseTo(-0.1);
  });
});

describe('corrected', () => {
  it('leaves what is within half a frame', () => {
    expect(corrected(0.4 / 60, 1, 60)).toBe(1);
    expect(corrected(-0.4 / 60, 0.25, 60)).toBe(0.25);
  });
  it('slows what is early and hurries what is late', () => {
    expect(corrected(2 / 60, 1, 60)).toBeCloseTo(0.85);
    expect(corrected(-2 / 60, 2, 60)).toBeCloseTo(2.3);
  });
  it('gives up what is far off', () => {
    expect(corrected(0.5, 1, 60)).toBeUndefined();
    expect(corrected(-0.5, 1, 60)).toBeUndefined();
  });
});

describe('Pair', () => {
  const standing = () => ({ currentTime: 0, seeking: false, pause: () => {} });
  it('has the second go to what was sought last, once it is where it was sent', () => {
    vi.stubGlobal('cancelAnimationFrame', () => {});
    const [first, second] = [standing(), standing()];
    const pair = new Pair(50);
    pair.first.attach(first as unknown as HTMLVideoElement);
    pair.attachSecond(second as unknown as HTMLVideoElement);
    second.seeking = true;
    const sent = second.currentTime;
    for (const frame of [10, 20, 30]) pair.seek(frame / 50);
    expect(second.currentTime).toBe(sent);
    second.seeking = false;
    pair.settled();
    expect(second.currentTime).toBeCloseTo(30.5 / 50);
    second.currentTime = 0.4; // a video that is shorter than it is said to be does not get there
    pair.settled();
    expect(second.currentTime).toBe(0.4);
  });
  it('has both stand in the middle of one frame once the first is there', () => {
    vi.stubGlobal('cancelAnimationFrame', () => {});
    const [first, second] = [standing(), standing()];
    const pair = new Pair(15);
    pair.first.watch(pair.shown);
    pair.first.attach(first as unknown as HTMLVideoElement);
    pair.attachSecond(second as unknown as HTMLVideoElement);
    pair.seek(52 / 15);
    pair.first.seen();
    expect(first.currentTime).toBeCloseTo(52.5 / 15);
    expect(second.currentTime).toBeCloseTo(52.5 / 15);
  });
});
