import { useCallback, useSyncExternalStore } from 'react';

/** Where two columns have room beside each other: Tailwind's `lg`. */
export const WIDE = '(min-width: 64rem)';

/** Whether a media query holds, as long as one looks. */
export function useMedia(query: string): boolean {
  const watch = useCallback(
    (told: () => void) => {
      const found = window.matchMedia(query);
      found.addEventListener('change', told);
      return () => found.removeEventListener('change', told);
    },
    [query],
  );
  return useSyncExternalStore(watch, () => window.matchMedia(query).matches);
}
