import { useRef } from 'react';
import type { Problem } from '../api/client';

interface Found {
  error: Problem | null;
  isSuccess: boolean;
  isFetching: boolean;
  refetch: () => unknown;
}

/** What could not be read, in a quiet line, and a way to ask for it again; nothing where it was read. */
export function AskAgain({ what, found }: { what: string; found: Found }) {
  const had = useRef<Problem>(undefined);
  if (found.error) had.current = found.error;
  else if (found.isSuccess) had.current = undefined; // while it is asked for again, what was said stays
  if (!had.current) return null;
  return (
    <p role="status" className="flex flex-wrap items-center gap-x-3 text-sm text-muted">
      <span className="min-w-0 wrap-anywhere">
        {what} could not be read: {had.current.message}
      </span>
      <button
        type="button"
        className="min-h-8 text-accent underline underline-offset-4 aria-disabled:opacity-60"
        aria-disabled={found.isFetching}
        onClick={() => found.isFetching || void found.refetch()}
      >
        Ask again
      </button>
    </p>
  );
}
