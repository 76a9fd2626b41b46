import { describe, expect, it } from 'vitest';
import { Clock } from './clock';

const NOON = Date.parse('2026-11-26T12:00:00Z');
const date = (at: number) => new Date(Math.floor(at / 1000) * 1000).toUTCString();

/** A browser whose clock is off, and what it hears of a server. */
function browser(offMs: number) {
  let server = NOON;
  let off = offMs;
  const clock = new Clock(() => server + off);
  return {
    clock,
    pass: (ms: number) => (server += ms),
    put: (ms: number) => (off = ms),
    /** How far it is from the server's time. */
    wrong: () => Math.abs(clock.now() - server),
    hear: (tookMs = 40, staleMs = 0) => {
      const asked = clock.ask();
      server += tookMs / 2;
      const said = date(server - staleMs);
      server += tookMs / 2;
      clock.hear(said, asked);
    },
  };
}

describe('the server’s time', () => {
  it.each([5 * 60_000, -5 * 60_000, 3_600_000 * 26, -4_000])('is known to a browser whose clock is %i ms off', (off) => {
    const one = browser(off);
    one.hear();
    expect(one.wrong()).toBeLessThan(1500);
    for (let at = 0; at < 30; at += 1) {
      one.pass(370);
      one.hear(40, at % 2 ? 900 : 0);
    }
    expect(one.wrong()).toBeLessThan(1000);
  });

  it('is the browser’s own where that may be right, and until anything was heard', () => {
    const one = browser(300);
    expect(one.wrong()).toBe(300);
    for (let at = 0; at < 20; at += 1) {
      one.pass(190);
      one.hear();
    }
    expect(one.wrong()).toBeLessThanOrEqual(300);
    const off = browser(60_000);
    off.clock.hear(null, off.clock.ask());
    off.clock.hear('yesterday', off.clock.ask());
    expect(off.wrong()).toBe(60_000);
  });

  it('is not thrown off by an answer that was long on its way', () => {
    const one = browser(-120_000);
    one.hear();
    const before = one.wrong();
    one.hear(50_000);
    expect(one.wrong()).toBeLessThanOrEqual(Math.max(before, 1500));
  });

  it('is learnt anew where the browser’s clock was put right', () => {
    const one = browser(600_000);
    one.hear();
    one.put(0);
    expect(one.wrong()).toBeGreaterThan(500_000);
    one.hear();
    expect(one.wrong()).toBeLessThan(1500);
  });
});
