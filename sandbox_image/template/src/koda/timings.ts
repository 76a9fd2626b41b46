// Reads what src/theatre/project.ts says about length, frame rate and size, and refuses what cannot be rendered.
import type { Timeline } from './contract';

/** The `SEQUENCE_TIMINGS` of src/theatre/project.ts: seconds, frames per second, design pixels. */
export interface SequenceTimings {
  readonly duration: number;
  readonly fps: number;
  readonly width?: number;
  readonly height?: number;
}

function inRange(name: string, value: number, low: number, high: number): number {
  if (typeof value === 'number' && value >= low && value <= high) return value;
  throw new Error(`SEQUENCE_TIMINGS.${name} in src/theatre/project.ts must be ${low} to ${high}, not ${String(value)}`);
}

export function readTimings({ duration, fps, width = 1920, height = 1080 }: SequenceTimings): Timeline {
  return {
    duration: inRange('duration', duration, 0.1, 3600),
    fps: inRange('fps', fps, 1, 240),
    size: { width: inRange('width', width, 16, 8192), height: inRange('height', height, 16, 8192) },
  };
}
