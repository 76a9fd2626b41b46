/** Times and numbers as the page writes them: in its own language, whatever the browser's is. */
import { clock } from '../../node/src/clock';

const LANGUAGE = 'en-GB';
const MINUTE_S = 60;
const HOUR_S = 3600;
const DAY_S = 86_400;
const TIME = { hour: '2-digit', minute: '2-digit' } as const;

/** How long ago something was, in words; a week and more ago, its day. */
export function ago(at: string, now: number): string {
  const passed = Math.max(0, (now - Date.parse(at)) / 1000);
  if (passed < MINUTE_S) return 'just now';
  if (passed < HOUR_S) return `${Math.floor(passed / MINUTE_S)} min ago`;
  if (passed < DAY_S) return `${Math.floor(passed / HOUR_S)} h ago`;
  const days = Math.floor(passed / DAY_S);
  if (days < 7) return days === 1 ? 'a day ago' : `${days} days ago`;
  return day(at, now);
}

/** A day: 18 Nov, with its year where that is another than now. */
export function day(at: string, now = clock.now()): string {
  return new Date(at).toLocaleDateString(LANGUAGE, dayIn(at, now));
}

/** A moment, to the minute; of today its time alone. */
export function moment(at: string, now = clock.now()): string {
  const time = new Date(at);
  const isToday = time.toDateString() === new Date(now).toDateString();
  return time.toLocaleString(LANGUAGE, isToday ? TIME : { ...dayIn(at, now), ...TIME });
}

/** A moment in full, for who wants to know it exactly. */
export function exactly(at: string): string {
  return new Date(at).toLocaleString(LANGUAGE, { dateStyle: 'long', timeStyle: 'medium' });
}

/** A month, of a year and a month in UTC. */
export function monthOf(month: string): string {
  return new Date(`${month}-01T00:00:00Z`).toLocaleDateString(LANGUAGE, { month: 'long', year: 'numeric', timeZone: 'UTC' });
}

/** A number with its thousands told apart. */
export function figure(value: number): string {
  return value.toLocaleString(LANGUAGE);
}

function dayIn(at: string, now: number): Intl.DateTimeFormatOptions {
  const isThisYear = new Date(at).getFullYear() === new Date(now).getFullYear();
  return { day: 'numeric', month: 'short', ...(isThisYear ? {} : { year: 'numeric' }) };
}
