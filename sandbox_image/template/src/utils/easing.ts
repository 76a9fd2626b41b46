// Easing functions: each maps progress 0..1 to 0..1 (back and elastic leave that range on their way) and holds outside.
// Formulas: Robert Penner's, as collected at easings.net. Numbers, springs and noise are in math.ts and exported here too.
export * from './math';

export type Easing = (t: number) => number;

/** 0 below 0 and 1 above 1, so that an animation that has not begun or is over stands still. */
function held(ease: Easing): Easing {
  return (t) => (t <= 0 ? 0 : t >= 1 ? 1 : ease(t));
}

/** The way out of a way in: the same curve, turned around. */
function out(easeIn: Easing): Easing {
  return held((t) => 1 - easeIn(1 - t));
}

/** First half in, second half out. */
function inOut(easeIn: Easing): Easing {
  return held((t) => (t < 0.5 ? easeIn(2 * t) / 2 : 1 - easeIn(2 - 2 * t) / 2));
}

function power(exponent: number): Easing {
  return held((t) => t ** exponent);
}

const BACK = 1.70158;
const BACK_IN_OUT = BACK * 1.525;
const ELASTIC_PERIOD = (2 * Math.PI) / 3;
const ELASTIC_PERIOD_IN_OUT = (2 * Math.PI) / 4.5;

export const linear: Easing = held((t) => t);

export const easeInSine: Easing = held((t) => 1 - Math.cos((t * Math.PI) / 2));
export const easeOutSine: Easing = out(easeInSine);
export const easeInOutSine: Easing = held((t) => (1 - Math.cos(Math.PI * t)) / 2);

export const easeInQuad: Easing = power(2);
export const easeOutQuad: Easing = out(easeInQuad);
export const easeInOutQuad: Easing = inOut(easeInQuad);

export const easeInCubic: Easing = power(3);
export const easeOutCubic: Easing = out(easeInCubic);
export const easeInOutCubic: Easing = inOut(easeInCubic);

export const easeInQuart: Easing = power(4);
export const easeOutQuart: Easing = out(easeInQuart);
export const easeInOutQuart: Easing = inOut(easeInQuart);

export const easeInQuint: Easing = power(5);
export const easeOutQuint: Easing = out(easeInQuint);
export const easeInOutQuint: Easing = inOut(easeInQuint);

export const easeInExpo: Easing = held((t) => 2 ** (10 * t - 10));
export const easeOutExpo: Easing = out(easeInExpo);
export const easeInOutExpo: Easing = inOut(easeInExpo);

export const easeInCirc: Easing = held((t) => 1 - Math.sqrt(1 - t * t));
export const easeOutCirc: Easing = out(easeInCirc);
export const easeInOutCirc: Easing = inOut(easeInCirc);

export const easeInBack: Easing = held((t) => (BACK + 1) * t ** 3 - BACK * t * t);
export const easeOutBack: Easing = out(easeInBack);
export const easeInOutBack: Easing = inOut((t) => (BACK_IN_OUT + 1) * t ** 3 - BACK_IN_OUT * t * t);

export const easeInElastic: Easing = held((t) => -(2 ** (10 * t - 10)) * Math.sin((t * 10 - 10.75) * ELASTIC_PERIOD));
export const easeOutElastic: Easing = out(easeInElastic);
export const easeInOutElastic: Easing = held((t) => {
  const wave = Math.sin((20 * t - 11.125) * ELASTIC_PERIOD_IN_OUT) / 2;
  return t < 0.5 ? -(2 ** (20 * t - 10)) * wave : 2 ** (-20 * t + 10) * wave + 1;
});

export const easeOutBounce: Easing = held((t) => {
  const n = 7.5625;
  const d = 2.75;
  if (t < 1 / d) return n * t * t;
  if (t < 2 / d) return n * (t - 1.5 / d) ** 2 + 0.75;
  if (t < 2.5 / d) return n * (t - 2.25 / d) ** 2 + 0.9375;
  return n * (t - 2.625 / d) ** 2 + 0.984375;
});
export const easeInBounce: Easing = out(easeOutBounce);
export const easeInOutBounce: Easing = inOut(easeInBounce);

const NEWTON_STEPS = 8;
const PRECISION = 1e-7;

/** One coordinate of a cubic Bezier curve from 0 to 1 with control points `a` and `b`, and its slope. */
function coordinate(a: number, b: number): { at: Easing; slope: Easing } {
  const c = 3 * a;
  const q = 3 * (b - a) - c;
  const p = 1 - c - q;
  return { at: (s) => ((p * s + q) * s + c) * s, slope: (s) => (3 * p * s + 2 * q) * s + c };
}

/**
 * CSS's cubic-bezier(x1, y1, x2, y2): the height of the curve where its x is t.
 *
 * The curve is given by a parameter, so x is solved for it first: Newton's steps, and bisection where the curve is flat.
 */
export function cubicBezier(x1: number, y1: number, x2: number, y2: number): Easing {
  if (!(x1 >= 0 && x1 <= 1 && x2 >= 0 && x2 <= 1))
    throw new RangeError(`cubicBezier needs x1 and x2 from 0 to 1, not ${x1} and ${x2}: x is time and must not run back`);
  const x = coordinate(x1, x2);
  const y = coordinate(y1, y2);
  const parameterAt = (t: number): number => {
    let s = t;
    for (let step = 0; step < NEWTON_STEPS; step++) {
      const error = x.at(s) - t;
      if (Math.abs(error) < PRECISION) return s;
      const slope = x.slope(s);
      if (Math.abs(slope) < 1e-6) break;
      s -= error / slope;
    }
    let low = 0;
    let high = 1;
    s = t;
    while (high - low > PRECISION) {
      if (x.at(s) < t) low = s;
      else high = s;
      s = (low + high) / 2;
    }
    return s;
  };
  return held((t) => y.at(parameterAt(t)));
}

/** CSS's own keywords. */
export const ease: Easing = cubicBezier(0.25, 0.1, 0.25, 1);
export const easeIn: Easing = cubicBezier(0.42, 0, 1, 1);
export const easeOut: Easing = cubicBezier(0, 0, 0.58, 1);
export const easeInOut: Easing = cubicBezier(0.42, 0, 0.58, 1);

/** The eased progress of `time` from `start` over `duration`, all in seconds: 0 before and 1 after. */
export function progress(time: number, start: number, duration: number, easing: Easing = linear): number {
  return easing(duration > 0 ? (time - start) / duration : time >= start ? 1 : 0);
}
