// Figures as people write them: `$1,200`, `45%`, `3.5k`.

/** How many decimals these values need. */
export function decimalsOf(values: readonly number[]): number {
  const needed = values.map((value) => (String(value).split('.')[1] ?? '').length);
  return Math.min(2, Math.max(0, ...needed));
}

export function figure(value: number, unit = '', decimals = 0): string {
  const number = Math.abs(value).toLocaleString('en-US', { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
  const sign = value < 0 ? '−' : '';
  return /^[$€£¥]/.test(unit) ? `${sign}${unit}${number}` : `${sign}${number}${unit}`;
}
