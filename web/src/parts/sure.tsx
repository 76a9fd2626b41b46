import { type ReactNode, useEffect, useRef } from 'react';
import type { Problem } from '../api/client';
import { Button } from './button';
import { Said } from './said';

interface Props {
  /** What is asked about, with whose it is. */
  label: string;
  yes: string;
  no: string;
  /** What it means. */
  children: ReactNode;
  /** What is offered in its place, where it cannot be done. */
  instead?: ReactNode;
  problem: Problem | null;
  busy: boolean;
  act: () => void;
  leave: () => void;
}

/** What something that cannot be undone means, said before it is done. Escape leaves it, and nothing around it. */
export function Sure({ label, yes, no, children, instead, problem, busy, act, leave }: Props) {
  const group = useRef<HTMLDivElement>(null);
  useEffect(() => group.current?.focus(), []);
  return (
    <div
      ref={group}
      role="group"
      aria-label={label}
      tabIndex={-1}
      className="mt-2 w-full space-y-2 rounded-xl bg-sunken p-3 text-sm"
      onKeyDown={(event) => {
        if (event.key !== 'Escape') return;
        event.preventDefault();
        event.stopPropagation();
        leave();
      }}
    >
      {problem ? <Said problem={problem} /> : <p>{children}</p>}
      <div className="flex flex-wrap gap-1">
        {instead ?? (
          <button
            type="button"
            className="min-h-9 rounded-lg px-3 font-medium text-bad hover:bg-bad-ground aria-disabled:opacity-60"
            aria-disabled={busy}
            onClick={() => busy || act()}
          >
            {yes}
          </button>
        )}
        <Button kind="quiet" className="min-h-9 py-1.5 hover:bg-line" onClick={leave}>
          {no}
        </Button>
      </div>
    </div>
  );
}
