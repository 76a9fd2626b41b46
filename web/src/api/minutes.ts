/** The time, for what is told in minutes. */
import { useEffect, useState } from 'react';
import { clock } from '../../node/src/clock';

const MINUTE_MS = 60_000;

/** The time now, as often as what is told of it changes. */
export function useMinutes(): number {
  const [now, setNow] = useState(clock.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(clock.now()), MINUTE_MS);
    return () => clearInterval(timer);
  }, []);
  return now;
}
