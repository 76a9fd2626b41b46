/** Whose page it is: what lives as long as the page, and is of a person, ends where another one is signed in. */

let owner: string | undefined;
let owners = 0;
const held = new Set<() => void>();

/** Have something done once the page is another person's. */
export function atChange(forget: () => void): void {
  held.add(forget);
}

/** Tell whose it is now. Whoever has to sign in once more is the same person afterwards. */
export function ownedBy(user: string): void {
  const isAnother = owner !== undefined && owner !== user;
  owner = user; // who forgets what was one's may go on with what is the other's
  if (!isAnother) return;
  owners += 1;
  for (const forget of held) forget();
}

/** How many others it was before: what is drawn of one is not drawn on for another. */
export function ownersBefore(): number {
  return owners;
}

/** Whose it is, as far as that is known. */
export function whose(): string {
  return owner ?? '';
}
