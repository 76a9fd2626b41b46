interface Props {
  /** What it is of, for who does not see it. */
  label: string;
  /** From 0 to 100. */
  percent: number;
  className?: string | undefined;
  /** What the part that is done looks like. */
  filled?: string | undefined;
}

/** How far something is. */
export function ProgressBar({ label, percent, className = 'koda-bar', filled }: Props) {
  return (
    <div role="progressbar" aria-label={label} aria-valuenow={Math.round(percent)} aria-valuemin={0} aria-valuemax={100} className={className}>
      <div className={filled} style={{ width: `${percent}%` }} />
    </div>
  );
}
