/** The time, for what is told in minutes. */
import { useEffect, useState } from 'react';

const MINUTE_MS = 60_000;

/** The time now, as often as what is told of it changes. */
export function useMinutes(): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), MINUTE_MS);
    return () => clearInterval(timer);
  }, []);
  return now;
}
