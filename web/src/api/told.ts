/** What became of sessions since one looked before, for who hears it. */
import { useEffect, useRef, useState } from 'react';
import { phaseWords, type SessionState, type Todo, type Where } from '../../node/src/session';

interface Listed extends Where {
  id: string;
}

/** What it is called, and where it is now, of each that is elsewhere than before; what came or went is no news of this. */
export function phasesTold<S extends Listed>(before: readonly S[], now: readonly S[], nameOf: (one: S) => string): string[] {
  const was = new Map(before.map((each) => [each.id, phaseWords(each)]));
  return now.filter((each) => was.has(each.id) && was.get(each.id) !== phaseWords(each)).map((each) => `${nameOf(each)}: ${phaseWords(each)}`);
}

type Standing = Where & Pick<SessionState, 'execution'>;

/** What of one session is otherwise than before, in words: where it is, and what was finished since. Before one looked it was nowhere. */
export function changesTold(before: Standing | undefined, now: Standing): string {
  const todos = now.execution?.todos ?? [];
  const done = todos.filter(isDone);
  const was = new Set(before?.execution?.todos?.filter(isDone).map(({ id }) => id));
  const since = before ? done.filter(({ id }) => !was.has(id)) : done.slice(-1);
  const finished = now.owes === 'execute' && since.length > 0 && `${since.map(({ label }) => label).join(', ')}: done, ${done.length} of ${todos.length}`;
  const where = (!before || phaseWords(before) !== phaseWords(now)) && phaseWords(now);
  return [where, finished].filter(Boolean).join('. ');
}

function isDone({ status }: Todo): boolean {
  return status === 'done';
}

/**
 * The same, for as long as a list is looked at. What is kept of before (`isKept`) is shown until it is read anew, and what became of that
 * meanwhile is no news: it was heard where one was.
 */
export function useTold<S extends Listed>(sessions: readonly S[], isKept: boolean, nameOf: (one: S) => string): string {
  const [said, setSaid] = useState('');
  const wasKept = useRef(isKept);
  const before = useRef(sessions);
  const named = useRef(nameOf);
  named.current = nameOf;
  const stands = sessions.map((each) => `${each.id} ${phaseWords(each)}`).join();
  const now = useRef(sessions);
  now.current = sessions;
  useEffect(() => {
    const words = wasKept.current ? [] : phasesTold(before.current, now.current, named.current);
    before.current = now.current;
    wasKept.current = isKept;
    if (words.length > 0) setSaid(words.join('. '));
  }, [stands, isKept]);
  return said;
}
