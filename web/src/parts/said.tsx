import type { Problem } from '../api/client';

/** What the server said about what was typed, beside it. */
export function Said({ problem, id }: { problem: Problem | null | undefined; id?: string }) {
  if (!problem) return null;
  return (
    <p role="alert" id={id} className="rounded-xl bg-bad-ground px-3.5 py-2.5 text-sm text-bad">
      {problem.message}
    </p>
  );
}
