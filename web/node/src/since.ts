/** How long something takes by now, and how that is written. */
import { useEffect, useState } from 'react';
import { clock } from './clock';

/** Minutes and seconds. */
export function clockWords(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, '0')}`;
}

/** Seconds since a time of the server's, for as long as it is looked at. */
export function useSeconds(since: string): number {
  const [now, setNow] = useState(clock.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(clock.now()), 1000);
    return () => clearInterval(timer);
  }, []);
  return (now - Date.parse(since)) / 1000;
}
