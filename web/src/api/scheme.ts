/** Light or dark: as the system has it, or as somebody chose here. `public/scheme.js` has it so before the page is painted. */

const CHOSEN = 'koda.scheme';

export const SCHEMES = ['system', 'light', 'dark'] as const;
export type Scheme = (typeof SCHEMES)[number];

export const scheme = {
  now: (): Scheme => {
    try {
      const kept = localStorage.getItem(CHOSEN);
      return SCHEMES.find((each) => each === kept) ?? 'system';
    } catch {
      return 'system'; // a browser that keeps nothing
    }
  },
  set: (chosen: Scheme): void => {
    if (chosen === 'system') localStorage.removeItem(CHOSEN);
    else localStorage.setItem(CHOSEN, chosen);
    show();
  },
};

/** Have the page look as it was chosen in another window, too. */
export function heedScheme(): void {
  window.addEventListener('storage', show);
}

function show(): void {
  const chosen = scheme.now();
  if (chosen === 'system') delete document.documentElement.dataset['scheme'];
  else document.documentElement.dataset['scheme'] = chosen;
}
