/** What became of sessions in a list since one looked before, for who hears it. */
import { useEffect, useRef, useState } from 'react';
import { phaseWords, type Where } from '../../node/src/session';

interface Listed extends Where {
  id: string;
}

/** What it is called, and where it is now, of each that is elsewhere than before; what came or went is no news of this. */
export function phasesTold<S extends Listed>(before: readonly S[], now: readonly S[], nameOf: (one: S) => string): string[] {
  const was = new Map(before.map((each) => [each.id, phaseWords(each)]));
  return now.filter((each) => was.has(each.id) && was.get(each.id) !== phaseWords(each)).map((each) => `${nameOf(each)}: ${phaseWords(each)}`);
}

/** The same, for as long as a list is looked at. */
export function useTold<S extends Listed>(sessions: readonly S[], nameOf: (one: S) => string): string {
  const [said, setSaid] = useState('');
  const before = useRef(sessions);
  const named = useRef(nameOf);
  named.current = nameOf;
  const stands = sessions.map((each) => `${each.id} ${phaseWords(each)}`).join();
  const now = useRef(sessions);
  now.current = sessions;
  useEffect(() => {
    const words = phasesTold(before.current, now.current, named.current);
    before.current = now.current;
    if (words.length > 0) setSaid(words.join('. '));
  }, [stands]);
  return said;
}
