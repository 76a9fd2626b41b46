import { type RefObject, useEffect, useRef } from 'react';
import { innermost, type Leavable } from '../api/innermost';
import { TYPED_INTO } from './keys';

const open: Leavable[] = [];

/** It is no single letter: it works where these are switched off. Full screens and dialogs are left by the browser itself. */
document.addEventListener('keydown', (event) => {
  if (event.key !== 'Escape' || event.defaultPrevented || event.repeat || event.isComposing) return;
  if (event.ctrlKey || event.metaKey || event.altKey || document.fullscreenElement || document.querySelector('dialog:modal')) return;
  const at = event.target instanceof Element ? event.target : null;
  const left = innermost(open, at, at !== null && !(at instanceof HTMLSelectElement) && at.matches(TYPED_INTO));
  if (!left) return;
  event.preventDefault();
  left.leave();
});

/** Leave something with Escape, wherever one is on the page, for as long as there is something to leave; each press leaves one thing. */
export function useEscape(leave: (() => void) | false | undefined, part?: RefObject<HTMLElement | null>) {
  const now = useRef(leave);
  now.current = leave;
  const isOpen = Boolean(leave);
  useEffect(() => {
    if (!isOpen) return;
    const one: Leavable = { leave: () => now.current && now.current(), part: () => part?.current };
    open.push(one);
    return () => void open.splice(open.indexOf(one), 1);
  }, [isOpen, part]);
}
