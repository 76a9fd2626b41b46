import { Keyboard } from 'lucide-react';
import { type KeyboardEvent as Pressed, type RefObject, useEffect, useRef, useState } from 'react';
import { useAct } from '../api/acts';
import { motion } from '../api/motion';
import { scheme, type Scheme, SCHEMES } from '../api/scheme';
import { Button } from './button';
import { Dialog } from './dialog';
import { notices } from './news';

/** Where ⌘ is the key that Ctrl is elsewhere, and Ctrl one that moves in what is typed. */
export const IS_MAC = /^(Mac|iP)/.test(navigator.platform);
export const FIND_KEY = IS_MAC ? '⌘ K' : 'Ctrl K';
const SWITCHED_OFF = 'koda.single-keys-off';
const KEYS: [group: string, keys: [key: string, does: string][]][] = [
  [
    'On the stage',
    [
      ['Space K', 'Play or pause'],
      ['Enter', 'Stop, and back to where it began'],
      ['J L', 'Backwards, forwards; again: faster'],
      ['← →', 'A frame; with Shift a second'],
      ['↑ ↓', 'The scene before, the next one'],
      ['Home End', 'The beginning, the end'],
      ['I O X', 'Play from here, up to here, all'],
      ['G', 'Go to a time or a frame'],
      ['P N', 'Point at something; note the whole frame'],
      ['S', 'Save the frame as a picture'],
      ['F', 'Full screen'],
    ],
  ],
  [
    'Everywhere else',
    [
      ['1 – 9', 'Choose an answer'],
      ['Enter', 'Send the answer; make what is planned'],
      ['Ctrl Enter', 'Send what you typed'],
      ['[ ]', 'The version before, the next one'],
      ['C', 'Compare two versions; 1 – 4: how'],
      ['B', 'In a comparison by Flip: the other one'],
      ['D', 'Download the video'],
      ['F2 Del', 'Rename, delete the animation one is at'],
      ['Enter C Del', 'On a canvas: choose, connect, remove'],
      [FIND_KEY, 'Find a place, an animation, something to do'],
      ['Ctrl Z', 'Undo that something was deleted'],
      ['Esc', 'Leave what you are in'],
      ['?', 'This list'],
    ],
  ],
];
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
  useAct('List the keys', () => setOpen(true));
  return (
    <>
      <Button kind="quiet" className={className} onClick={() => setOpen(true)}>
        <Keyboard aria-hidden className="size-4" /> Keys
      </Button>
      {isOpen && <KeyList close={() => setOpen(false)} />}
    </>
  );
}

function KeyList({ close }: { close: () => void }) {
  const [on, setOn] = useState(singleKeys.on);
  const [tells, setTells] = useState(notices.on);
  const [refused, setRefused] = useState(false);
  const [moves, setMoves] = useState(motion.on);
  const tell = async (wants: boolean) => {
    const does = await notices.set(wants);
    setTells(does);
    setRefused(wants && !does);
  };
  return (
    <Dialog title="Keys" close={close} className="max-w-sm sm:max-w-3xl">
      <div className="mt-3 grid gap-x-10 gap-y-6 sm:grid-cols-2">
        {KEYS.map(([group, keys]) => (
          <section key={group}>
            <h3 className="mb-3 text-sm font-medium">{group}</h3>
            <dl className="grid grid-cols-[auto_1fr] items-baseline gap-x-4 gap-y-2.5 text-sm">
              {keys.map(([key, does]) => (
                <div key={key} className="contents">
                  <dt>
                    <kbd className="rounded-md border border-line px-1.5 py-0.5 font-sans text-xs">{key}</kbd>
                  </dt>
                  <dd className="text-muted">{does}</dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
      </div>
      <label className="mt-5 flex cursor-pointer items-center gap-2.5 border-t border-line pt-4 text-sm">
        <input
          type="checkbox"
          className="size-4 accent-(--accent)"
          checked={on}
          onChange={({ target }) => {
            singleKeys.set(target.checked);
            setOn(target.checked);
          }}
        />
        Single letters and digits are keys
      </label>
      <label className="mt-3 flex cursor-pointer items-center gap-2.5 text-sm">
        <input
          type="checkbox"
          className="size-4 accent-(--accent)"
          checked={moves}
          onChange={({ target }) => {
            motion.set(target.checked);
            setMoves(target.checked);
          }}
        />
        <span>
          Pictures and signs may move by themselves
          {motion.isOffInSystem() && <span className="text-muted">: your system says that nothing shall</span>}
        </span>
      </label>
      {notices.can() && (
        <label className="mt-3 flex cursor-pointer items-center gap-2.5 text-sm">
          <input type="checkbox" className="size-4 accent-(--accent)" checked={tells} onChange={({ target }) => void tell(target.checked)} />
          Tell me on the desktop when something is done or asks
        </label>
      )}
      <Looks />
      <p role="status" className={refused ? 'mt-2 text-sm text-muted' : 'sr-only'}>
        {refused && 'The browser does not let this page do so: its settings for this address decide.'}
      </p>
    </Dialog>
  );
}

const LOOKS: Record<Scheme, string> = { system: 'As the system', light: 'Light', dark: 'Dark' };

function Looks() {
  const [chosen, setChosen] = useState(scheme.now);
  return (
    <fieldset className="mt-4 flex flex-wrap items-center gap-x-5 gap-y-2 text-sm">
      <legend className="sr-only">Light or dark</legend>
      {SCHEMES.map((each) => (
        <label key={each} className="flex min-h-6 cursor-pointer items-center gap-2.5">
          <input
            type="radio"
            name="scheme"
            className="size-4 accent-(--accent)"
            checked={chosen === each}
            onChange={() => {
              scheme.set(each);
              setChosen(each);
            }}
          />
          {LOOKS[each]}
        </label>
      ))}
    </fieldset>
  );
}
