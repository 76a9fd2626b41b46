// Numbers for animation. All are functions of their arguments alone: the same frame is the same wherever it is rendered.

export function clamp(value: number, low = 0, high = 1): number {
  return Math.min(Math.max(value, low), high);
}

export function lerp(from: number, to: number, t: number): number {
  return from + (to - from) * t;
}

/** Where `value` lies between `from` and `to`: 0 at the first, 1 at the second, not held. */
export function inverseLerp(from: number, to: number, value: number): number {
  return from === to ? 0 : (value - from) / (to - from);
}

/** `value` carried from one range to another, held at its ends. */
export function mapRange(value: number, fromLow: number, fromHigh: number, toLow: number, toHigh: number): number {
  return lerp(toLow, toHigh, clamp(inverseLerp(fromLow, fromHigh, value)));
}

export function smoothstep(low: number, high: number, value: number): number {
  const t = clamp(inverseLerp(low, high, value));
  return t * t * (3 - 2 * t);
}

export interface SpringShape {
  readonly stiffness?: number;
  readonly damping?: number;
  readonly mass?: number;
}

/**
 * A damped spring that is let go at 0 and comes to rest at 1, `seconds` after it was let go.
 *
 * The closed solution of m x'' + c x' + k (x - 1) = 0, so it needs no frames before this one. The default overshoots by
 * about a tenth.
 */
export function spring(seconds: number, { stiffness = 120, damping = 13, mass = 1 }: SpringShape = {}): number {
  if (seconds <= 0) return 0;
  const natural = Math.sqrt(stiffness / mass);
  const ratio = damping / (2 * Math.sqrt(stiffness * mass));
  const decay = Math.exp(-ratio * natural * seconds);
  if (Math.abs(ratio - 1) < 1e-6) return 1 - decay * (1 + natural * seconds);
  const turning = natural * Math.sqrt(Math.abs(1 - ratio * ratio));
  const [c, s] =
    ratio < 1
      ? [Math.cos(turning * seconds), Math.sin(turning * seconds)]
      : [Math.cosh(turning * seconds), Math.sinh(turning * seconds)];
  return 1 - decay * (c + ((ratio * natural) / turning) * s);
}

/** Height 0..1 of something that is dropped from 1 and bounces, `seconds` after; `period` is the first fall and rise. */
export function bounceHeight(seconds: number, period = 1, restitution = 0.7): number {
  if (seconds <= 0) return 1;
  let height = 1;
  let length = period;
  let since = seconds + period / 2;
  while (since >= length) {
    since -= length;
    height *= restitution * restitution;
    length *= restitution;
    if (height < 1e-5) return 0;
  }
  const u = since / length;
  return 4 * height * u * (1 - u);
}

/** A generator of numbers in [0, 1) that gives the same ones for the same seed (mulberry32). */
export function mulberry32(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

/** One number in [0, 1) for a seed and up to three whole numbers: the random size of particle 12, say. */
export function random(seed: number, a = 0, b = 0, c = 0): number {
  const mixed = seed ^ Math.imul(a + 1, 0x9e3779b1) ^ Math.imul(b + 1, 0x85ebca77) ^ Math.imul(c + 1, 0xc2b2ae3d);
  return mulberry32(mixed)();
}

function fade(t: number): number {
  return t * t * t * (t * (t * 6 - 15) + 10);
}

/** Smooth noise in [-1, 1] along a line; whole numbers are independent of each other. */
export function noise1D(x: number, seed = 1): number {
  const cell = Math.floor(x);
  const value = (i: number): number => random(seed, i) * 2 - 1;
  return lerp(value(cell), value(cell + 1), fade(x - cell));
}

/** Smooth noise in [-1, 1] over a plane. */
export function noise2D(x: number, y: number, seed = 1): number {
  const column = Math.floor(x);
  const row = Math.floor(y);
  const u = fade(x - column);
  const value = (i: number, j: number): number => random(seed, i, j) * 2 - 1;
  return lerp(
    lerp(value(column, row), value(column + 1, row), u),
    lerp(value(column, row + 1), value(column + 1, row + 1), u),
    fade(y - row),
  );
}
