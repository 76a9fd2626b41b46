/** Where the keyboard is once what it was at has gone: at the heading of what came in its place, and never away from where somebody types. */
import { type RefObject, useEffect, useLayoutEffect, useRef } from 'react';
import { TYPED_INTO } from './keys';

/** What had the focus last, until something else is pressed on. */
let last: Element | undefined;
document.addEventListener('focusin', ({ target }) => (last = target instanceof Element ? target : undefined));
document.addEventListener(
  'pointerdown',
  ({ target }) => {
    if (!(target instanceof Node && last?.contains(target))) last = undefined;
  },
  { capture: true },
);

let wentBack = false;
window.addEventListener('popstate', () => (wentBack = true));

/** Whether something is on the screen: a part that waits for what it needs has what was there before hidden in it. */
function isShown(one: Element): boolean {
  return one.getClientRects().length > 0;
}

function isNowhere(): boolean {
  const at = document.activeElement ?? document.body;
  return at === document.body || !isShown(at);
}

/** Whether the focus was at something that cannot have it any more, and has gone nowhere since. */
function hasFallen(): boolean {
  return isNowhere() && last !== undefined && !document.fullscreenElement && (!last.isConnected || last.matches(':disabled'));
}

/** Have the focus at something that nobody comes to by Tab; who uses the keyboard is to see where that is. */
function arriveAt(place: HTMLElement, scrolls: boolean): void {
  if (!place.hasAttribute('tabindex')) {
    place.tabIndex = -1;
    place.addEventListener('blur', () => place.removeAttribute('tabindex'), { once: true });
  }
  place.focus({ preventScroll: true });
  if (scrolls && place.matches(':focus-visible')) place.scrollIntoView({ block: 'nearest' });
}

/**
 * Begin each screen at its heading, or where it has none yet at its top, until the heading is there. The first one of a page begins as
 * browsers have it; undefined is none.
 */
export function useArrival(screen: string | undefined): void {
  const before = useRef(screen);
  useEffect(() => {
    const was = before.current;
    before.current = screen ?? was;
    const scrolls = !wentBack; // who went back finds the page where it was
    wentBack = false;
    if (screen === undefined || was === undefined || was === screen) return;
    const main = document.querySelector('main');
    if (!main) return;
    const isTaken = () => {
      const at = document.activeElement;
      return at !== null && at !== main && !isNowhere() && (main.contains(at) || at.matches(TYPED_INTO));
    };
    const heading = () => [...main.querySelectorAll('h1')].find(isShown);
    if (isTaken()) return; // the screen has a beginning of its own
    arriveAt(heading() ?? main, scrolls);
    if (heading()) return;
    const looking = new MutationObserver(() => {
      const found = heading();
      const isElsewhere = !isNowhere() && document.activeElement !== main;
      if (found && !isElsewhere) arriveAt(found, scrolls);
      if (found || isElsewhere) looking.disconnect();
    });
    looking.observe(main, { childList: true, subtree: true, attributes: true, attributeFilter: ['style'] });
    return () => looking.disconnect();
  }, [screen]);
}

/** Have the focus go to the heading of what is shown now, where it was at what was shown before and has gone with that. */
export function useRefocus(shown: string, part: RefObject<HTMLElement | null>): void {
  const before = useRef(shown);
  useEffect(() => {
    if (before.current === shown) return;
    before.current = shown;
    // what came may have a place of its own for it
    const frame = requestAnimationFrame(() => {
      const heading = part.current?.querySelector<HTMLElement>('h1, h2, legend');
      if (heading && hasFallen()) arriveAt(heading, true);
    });
    return () => cancelAnimationFrame(frame);
  }, [shown, part]);
}

/** Have the focus back at what was pressed, where that could not be pressed for a while and is still there. */
export function useReturn(isBusy: boolean): void {
  const was = useRef<Element>(undefined);
  useEffect(() => {
    if (isBusy) was.current = last;
    else if (was.current && was.current === last && isNowhere() && last instanceof HTMLElement && last.isConnected) last.focus({ preventScroll: true });
  }, [isBusy]);
}

let carried: { name: string; from: Element } | undefined;

/** Note that something was pressed by keys which goes because of that: what comes in its place under the same name is where they go on. */
export function carry(name: string, { detail, currentTarget }: { detail: number; currentTarget: Element }): void {
  carried = detail === 0 ? { name, from: currentTarget } : undefined; // keys of who pressed by pointer are the page's
}

/** Have the focus at this when it comes, where it was carried here from what had it and has gone; and again where this comes anew. */
export function useCounterpart(name: string): RefObject<HTMLButtonElement | null> {
  const own = useRef<HTMLButtonElement>(null);
  useLayoutEffect(() => {
    const { current } = own;
    if (!current || carried?.name !== name || carried.from !== last || !hasFallen()) return;
    current.focus({ preventScroll: true });
    carried = { name, from: current };
  }, [name]);
  return own;
}
