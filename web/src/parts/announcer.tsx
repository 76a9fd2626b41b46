import { useEffect, useRef, useSyncExternalStore } from 'react';
import type { NodeState } from '../api/client';
import { changesTold } from '../api/told';

let words = '';
const watchers = new Set<() => void>();

function watch(told: () => void): () => void {
  watchers.add(told);
  return () => watchers.delete(told);
}

function say(next: string): void {
  words = next;
  for (const told of watchers) told();
}

/** What is said to who does not see it. It is there before anything is: what comes onto the page with its words is seldom heard. */
export function Announcer() {
  const said = useSyncExternalStore(watch, () => words);
  return (
    <p role="status" className="sr-only">
      {said}
    </p>
  );
}

/** Say where a session is, and what of it is finished, as that changes; what agents think and write on the way is not for the ear. */
export function useAnnounced(state: NodeState | undefined): void {
  const before = useRef<NodeState>(undefined);
  const told = state && changesTold(before.current, state);
  useEffect(() => {
    if (told) say(told);
    before.current = state;
  });
  useEffect(
    () => () => {
      before.current = undefined;
      say('');
    },
    [],
  );
}
