/** What can be done on the screen one is at, by name, for who looks for it rather than for its button. */
import { useEffect, useRef } from 'react';

export interface Act {
  words: string;
  act: () => void;
}

const held = new Set<Act>();

/** Offer something under a name, until what is returned is called: who chose it before that, and comes later, does nothing. */
export function offer(words: string, act: () => void): () => void {
  const one = { words, act: () => (held.has(one) ? act() : undefined) };
  held.add(one);
  return () => void held.delete(one);
}

/** Offer something under a name, for as long as it can be done and what offers it is shown. */
export function useAct(words: string | false | null | undefined, act: () => void): void {
  const now = useRef(act);
  now.current = act;
  useEffect(() => {
    return words ? offer(words, () => now.current()) : undefined;
  }, [words]);
}

/** What is offered now, the newest first, each name once: what came with the screen stands before what is everywhere. */
export function actsHere(): readonly Act[] {
  const named = new Map<string, Act>();
  for (const one of [...held].reverse()) if (!named.has(one.words)) named.set(one.words, one);
  return [...named.values()];
}

/** Whether a name has every word, or beginning of one, that somebody typed. */
export function has(name: string, typed: string): boolean {
  const words = name.toLowerCase().split(/\s+/);
  return typed.toLowerCase().split(/\s+/).filter(Boolean).every((part) => words.some((word) => word.startsWith(part)));
}
