/** How wide a node may be, in pixels of the canvas, and how keys change that. */

export const LEAST_PX = 320;
export const MOST_PX = 900;
const STEP_PX = 20;
const FAR_PX = 100;

/** How wide a node is after a key; undefined where the key has nothing to do with that. */
export function widthAfter({ key, shiftKey }: { key: string; shiftKey: boolean }, width: number): number | undefined {
  const step = shiftKey ? FAR_PX : STEP_PX;
  if (key === 'ArrowLeft') return Math.max(LEAST_PX, width - step);
  if (key === 'ArrowRight') return Math.min(MOST_PX, width + step);
  if (key === 'Home') return LEAST_PX;
  return key === 'End' ? MOST_PX : undefined;
}
