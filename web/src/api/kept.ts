/** What somebody is typing, kept for as long as a tab is open: by person, by place and by field, until it is sent. */
import { useCallback, useRef, useState } from 'react';
import { whose } from './owner';

const KEPT = 'koda.typed.';

/** Read what was kept; what is nothing of that kind is not there. */
export function readKept<T>(key: string, empty: T, storage: Storage = sessionStorage): T {
  try {
    const found = JSON.parse(storage.getItem(KEPT + key) ?? 'null') as unknown;
    const isAlike = found !== null && typeof found === typeof empty && Array.isArray(found) === Array.isArray(empty);
    return isAlike ? (found as T) : empty;
  } catch {
    return empty;
  }
}

/** Keep it; what says nothing takes no room. */
export function keep<T>(key: string, value: T, empty: T, storage: Storage = sessionStorage): void {
  const said = JSON.stringify(value);
  try {
    if (said === JSON.stringify(empty)) storage.removeItem(KEPT + key);
    else storage.setItem(KEPT + key, said);
  } catch {
    // a full storage keeps nothing more: what is typed is still there
  }
}

/** Where something is kept of whoever is signed in. */
export function keyOf(place: string, field: string): string {
  return `${whose()}.${place}.${field}`;
}

/** Forget all that was typed, whoever did. */
export function forgetTyped(storage: Storage = sessionStorage): void {
  for (const key of Object.keys(storage)) if (key.startsWith('koda.')) storage.removeItem(key);
}

/** State that a reload, a screen that is left and a sign-in in between do not lose. It is empty again once it is sent. */
export function useKept<T>(place: string, field: string, empty: T): [T, (next: T | ((before: T) => T)) => void] {
  const key = keyOf(place, field);
  const nothing = useRef(empty);
  const [value, setValue] = useState(() => readKept(key, empty));
  const now = useRef(value);
  const put = useCallback(
    (next: T | ((before: T) => T)) => {
      now.current = typeof next === 'function' ? (next as (before: T) => T)(now.current) : next;
      keep(key, now.current, nothing.current);
      setValue(now.current);
    },
    [key],
  );
  return [value, put];
}
