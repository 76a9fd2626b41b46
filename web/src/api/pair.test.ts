import { describe, expect, it } from 'vitest';
import { apart, corrected } from './pair';

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
