import { ProgressBar } from '../../node/src/progress-bar';

interface Props {
  label: string;
  /** From 0 to 100. */
  percent: number;
  /** How high it is, and on what it lies; a bar in a card else. */
  className?: string;
  /** What is on its way is told in steps, between which it glides. */
  glides?: boolean;
  /** All of it is there, and something is still to come of that. */
  waits?: boolean;
}

/** How far something is, as the page draws that. */
export function Bar({ label, percent, className = 'h-1.5 bg-sunken', glides = false, waits = false }: Props) {
  return (
    <ProgressBar
      label={label}
      percent={percent}
      className={`overflow-hidden rounded-full ${className}`}
      filled={`h-full rounded-full bg-accent ${glides ? 'transition-[width] duration-700 motion-reduce:transition-none' : ''} ${waits ? 'breathing' : ''}`}
    />
  );
}
