import { Keyboard } from 'lucide-react';
import { type KeyboardEvent as Pressed, type RefObject, Suspense, useEffect, useRef, useState } from 'react';
import { useAct } from '../api/acts';
import { Button } from './button';
import { Dialog } from './dialog';
import { late } from './late';

const KeyList = late(
  () => import('./key-list').then((module) => module.KeyList),
  ({ close }, said) => (
    <Dialog title="Keys" close={close}>
      {said}
    </Dialog>
  ),
);

/** Where ⌘ is the key that Ctrl is elsewhere, and Ctrl one that moves in what is typed. */
export const IS_MAC = /^(Mac|iP)/.test(navigator.platform);
export const FIND_KEY = IS_MAC ? '⌘ K' : 'Ctrl K';
const SWITCHED_OFF = 'koda.single-keys-off';
export const TYPED_INTO = 'textarea, select, [contenteditable], input:not([type=radio], [type=checkbox], [type=range])';
/** What may have the focus, and does nothing with keys: a heading that one was brought to. */
const AT = '[tabindex]:not(main, h1, h2, legend)';
const PRESSED = `a, button, summary, input, video, ${AT}`;
const PRESSED_BY_SPACE = PRESSED.replace('input', 'input:not([type=range])');
const MOVED_IN = `input, ${AT}`;

/** Whether keys that are single letters do something; for who speaks to the browser, or hits keys by chance, they do not. */
export const singleKeys = {
  on: () => localStorage.getItem(SWITCHED_OFF) === null,
  set: (on: boolean) => (on ? localStorage.removeItem(SWITCHED_OFF) : localStorage.setItem(SWITCHED_OFF, 'yes')),
};

/** Whether a key was pressed for the page, and not for what one is typing in. */
export function isForThePage(event: KeyboardEvent): boolean {
  const { target } = event;
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return false;
  if (document.querySelector('dialog:modal') || (target instanceof Element && target.matches(TYPED_INTO))) return false;
  if (event.key === 'Enter') return !(target instanceof Element && target.closest(PRESSED));
  if (event.key === ' ') return !(target instanceof Element && target.closest(PRESSED_BY_SPACE));
  if (event.key.startsWith('Arrow') || event.key === 'Home' || event.key === 'End') return !(target instanceof Element && target.closest(MOVED_IN));
  return singleKeys.on();
}

let pressedOn: readonly EventTarget[] = [];
document.addEventListener('pointerdown', (event) => (pressedOn = event.composedPath()), { capture: true });

/** Whether somebody is at a part of the page: it has the focus, or was pressed on last, or is all there is on the screen. */
function isAt(part: HTMLElement | null, target: EventTarget | null): boolean {
  if (!part) return false;
  if (target !== document.body) return part.contains(target as Node);
  return pressedOn.includes(part) || document.fullscreenElement === part;
}

interface When {
  /** Again while it is held. */
  held?: boolean;
  /** Before anything else that the key would do. */
  first?: boolean;
  /** Only where somebody is at this: elsewhere the key does what it does in any page. */
  within?: RefObject<HTMLElement | null> | undefined;
}

/** Do something when a key is pressed on the page, for as long as there is something to do. */
export function useKey(key: string, act: ((event: KeyboardEvent) => void) | undefined, { held = false, first = false, within }: When = {}) {
  const now = useRef(act);
  now.current = act;
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      if (event.key.toLowerCase() !== key.toLowerCase() || !now.current || !isForThePage(event)) return;
      if (within && !isAt(within.current, event.target)) return;
      event.preventDefault();
      if (held || !event.repeat) now.current(event);
    };
    document.addEventListener('keydown', pressed, first);
    return () => document.removeEventListener('keydown', pressed, first);
  }, [key, held, first, within]);
}

/** Send a form from its one-line fields too as from its longer ones. */
export function sendByKeys(event: Pressed<HTMLFormElement>) {
  if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey) || event.defaultPrevented) return;
  event.preventDefault();
  if (!event.repeat) event.currentTarget.requestSubmit();
}

export function Key({ name }: { name: string }) {
  return (
    <kbd aria-hidden className="hidden rounded-md border border-current/30 px-1.5 font-sans text-xs sm:inline">
      {name}
    </kbd>
  );
}

interface Opened {
  /** Is given what opens it, where its own button has no room. */
  opener?: RefObject<() => void>;
  /** Where its button is not; it is there however narrow the screen is, unless this says otherwise. */
  className?: string;
}

/** The list of keys, and what is switched here: single ones, notices, motion, light or dark. */
export function Keys({ opener, className = '' }: Opened) {
  const [isOpen, setOpen] = useState(false);
  if (opener) opener.current = () => setOpen(true);
  useKey('?', isOpen ? undefined : () => setOpen(true));
  useKey('Escape', isOpen ? () => setOpen(false) : undefined); // before it has come; from then on it is left by its own
  useAct('List the keys', () => setOpen(true));
  return (
    <>
      <Button kind="quiet" className={className} onClick={() => setOpen(true)}>
        <Keyboard aria-hidden className="size-4" /> Keys
      </Button>
      <Suspense fallback={null}>{isOpen && <KeyList close={() => setOpen(false)} />}</Suspense>
    </>
  );
}
