/** Whether things move by themselves: not where the system says so, and not where somebody has switched it off here. */

const SWITCHED_OFF = 'koda.motion-off';
/** Stands on the root while it is switched off, for what is drawn (`style.css`). */
const MARK = 'data-rest';

export const motion = {
  on: (): boolean => {
    try {
      return localStorage.getItem(SWITCHED_OFF) === null;
    } catch {
      return true; // a browser that keeps nothing
    }
  },
  set: (on: boolean): void => {
    if (on) localStorage.removeItem(SWITCHED_OFF);
    else localStorage.setItem(SWITCHED_OFF, 'yes');
    mark();
  },
  /** Whether the system says that nothing is to move, whatever is switched here. */
  isOffInSystem: (): boolean => matchMedia('(prefers-reduced-motion: reduce)').matches,
};

/** Whether nothing is to move by itself. */
export function wantsRest(): boolean {
  return motion.isOffInSystem() || !motion.on();
}

/** Have the page look as it was switched, also in another window. */
export function heedMotion(): void {
  mark();
  window.addEventListener('storage', mark);
}

function mark(): void {
  document.documentElement.toggleAttribute(MARK, !motion.on());
}
