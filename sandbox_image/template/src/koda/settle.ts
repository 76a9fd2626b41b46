// Waits until a frame can be captured: fonts that its text uses, images, files that load, suspended components.
//
// Only events and promises are awaited, never timers or animation frames, because a renderer may have stopped both.
import { unstable_IdlePriority, unstable_scheduleCallback } from 'scheduler';
import { record } from './errors';
import { pending } from './pending';

const MAX_ROUNDS = 100;
const CSS_URL = /url\((["']?)(?!data:|#)(.*?)\1\)/g;

const seenImages = new WeakMap<HTMLImageElement, string>();
const seenBackgrounds = new Set<string>();
const changed = new MutationObserver(() => undefined);
const failedFonts = new WeakSet<FontFace>();

/** Start watching the document for images that come later. */
export function watchDocument(): void {
  changed.observe(document.documentElement, {
    subtree: true,
    childList: true,
    attributes: true,
    attributeFilter: ['class', 'src', 'srcset'],
  });
}

/**
 * React has nothing left to do: neither in the DOM nor in 3D, also nothing that an effect has set.
 *
 * A task of the lowest priority in React's own scheduler runs when no other is left there.
 */
function reactIdle(): Promise<void> {
  return new Promise((resolve) => unstable_scheduleCallback(unstable_IdlePriority, () => resolve()));
}

function loadingFonts(): Promise<unknown>[] {
  void document.body.offsetHeight; // layout decides which faces are needed
  if (document.fonts.status !== 'loading') return [];
  return [...document.fonts]
    .filter((face) => face.status === 'loading' && !failedFonts.has(face))
    .map((face) =>
      pending.holdFor(`font ${face.family}`, face.loaded).catch((error: unknown) => {
        failedFonts.add(face);
        record(`the font "${face.family}" could not be loaded: ${String(error)}`, 'asset');
      }),
    );
}

function decode(image: HTMLImageElement): Promise<unknown> {
  const url = image.currentSrc || image.src;
  image.loading = 'eager';
  image.decoding = 'sync';
  return pending.holdFor(`image ${url.slice(0, 120)}`, image.decode()).catch((error: unknown) => {
    if ((image.currentSrc || image.src) === url)
      record(`the image ${url.slice(0, 200)} could not be loaded: ${String(error)}`, 'asset');
  });
}

function newImages(): Promise<unknown>[] {
  const fresh = [...document.images].filter((image) => image.src && seenImages.get(image) !== image.src);
  for (const image of fresh) seenImages.set(image, image.src);
  return fresh.map(decode);
}

function newBackgrounds(): Promise<unknown>[] {
  const waits: Promise<unknown>[] = [];
  for (const element of document.querySelectorAll('body, body *')) {
    const style = getComputedStyle(element);
    for (const value of [style.backgroundImage, style.maskImage, style.borderImageSource]) {
      if (!value || value === 'none') continue;
      for (const [, , url] of value.matchAll(CSS_URL)) {
        if (!url || seenBackgrounds.has(url)) continue;
        seenBackgrounds.add(url);
        const image = new Image();
        image.src = url;
        waits.push(decode(image));
      }
    }
  }
  return waits;
}

let firstRound = true;

function missing(): Promise<unknown>[] {
  const touched = changed.takeRecords().length > 0 || firstRound;
  firstRound = false;
  return [...loadingFonts(), ...(touched ? [...newImages(), ...newBackgrounds()] : [])];
}

/** Wait until nothing is missing. Gives true where there was something to wait for. */
export async function settle(): Promise<boolean> {
  for (let round = 0; round < MAX_ROUNDS; round++) {
    await reactIdle();
    const waits = missing();
    if (waits.length === 0 && pending.isIdle()) return round > 0;
    await Promise.all([...waits, pending.idle()]);
  }
  throw new Error(`the page does not settle: something starts to load after each round (${pending.names().join(', ')})`);
}
