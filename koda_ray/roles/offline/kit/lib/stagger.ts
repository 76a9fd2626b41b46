// One Theatre value drives many parts: each part runs its own 0 to 1 within it, one after another.
import { clamp } from '../utils/easing';

/**
 * The progress of part `index` of `count` when the whole stands at `whole` (0 to 1, or beyond where the curve overshoots).
 * `overlap` from 0 (strictly one after another) to 1 (all at once).
 */
export function stagger(whole: number, index: number, count: number, overlap = 0.6): number {
  const length = 1 / (1 + (count - 1) * (1 - overlap));
  const start = index * length * (1 - overlap);
  return clamp((whole - start) / length);
}
