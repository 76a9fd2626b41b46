// The page's time as a frame number, for code that counts frames.
import { useSyncExternalStore } from 'react';
import { clock } from '../koda/clock';
import { getTimeline } from '../koda/contract';

/** The frame at `fps` frames a second (the project's own by default), whatever rate is rendered. */
export function useCurrentFrame(fps: number = getTimeline().fps): number {
  // i / fps * fps can be just below i
  return useSyncExternalStore(clock.subscribe, () => Math.floor(clock.now() * fps + 1e-6));
}
