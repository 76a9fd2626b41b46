// The page's time in seconds; the component renders again when it changes.
import { useSyncExternalStore } from 'react';
import { clock } from '../koda/clock';

export function useCurrentTime(): number {
  return useSyncExternalStore(clock.subscribe, clock.now);
}
