/** Whose page it is: what lives as long as the page, and is of a person, ends where another one is signed in. */

let owner: string | undefined;
const held = new Set<() => void>();

/** Have something done once the page is another person's. */
export function atChange(forget: () => void): void {
  held.add(forget);
}

/** Tell whose it is now. Whoever has to sign in once more is the same person afterwards. */
export function ownedBy(user: string): void {
  if (owner !== undefined && owner !== user) for (const forget of held) forget();
  owner = user;
}

/** Whose it is, as far as that is known. */
export function whose(): string {
  return owner ?? '';
}
