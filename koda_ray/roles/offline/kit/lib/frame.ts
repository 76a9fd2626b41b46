// The picture's measures in design pixels: layouts are written for 1080 on the short side and scale from there.
import { SEQUENCE_TIMINGS } from '../theatre/project';

const { width, height, duration } = SEQUENCE_TIMINGS;

export const frame = {
  width,
  height,
  duration,
  /** One design unit: a 1080th of the short side. */
  unit: Math.min(width, height) / 1080,
  aspect: width / height,
  /** Nothing that has to be read comes closer to the edge than this. */
  margin: Math.round(Math.min(width, height) * 0.09),
  shape: width / height > 1.2 ? 'wide' : width / height < 0.84 ? 'tall' : 'square',
} as const;

/** `n` design units in pixels. */
export function px(n: number): number {
  return n * frame.unit;
}
