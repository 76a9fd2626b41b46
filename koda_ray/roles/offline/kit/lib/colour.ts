// Small colour sums for gradients and highlights.

function channels(hex: string): [number, number, number] {
  return [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16)) as [number, number, number];
}

/** `a` with `share` (0 to 1) of `b` in it. */
export function mix(a: string, b: string, share: number): string {
  const from = channels(a);
  const to = channels(b);
  const out = from.map((v, i) => Math.round(v + ((to[i] ?? v) - v) * share));
  return `#${out.map((v) => v.toString(16).padStart(2, '0')).join('')}`;
}

export const lighten = (hex: string, share: number): string => mix(hex, '#ffffff', share);
export const darken = (hex: string, share: number): string => mix(hex, '#000000', share);

/** A colour with an opacity from 0 to 1. */
export function fade(hex: string, opacity: number): string {
  const [r, g, b] = channels(hex);
  return `rgba(${r}, ${g}, ${b}, ${Math.max(0, Math.min(1, opacity)).toFixed(4)})`;
}
