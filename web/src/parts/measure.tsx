import type { Line } from '../api/usage';

/** What was used of something, in a list of such: beside its limit, where it has one. */
export function Measure({ line, isNear }: { line: Line; isNear: boolean }) {
  return (
    <li>
      <p className="flex flex-wrap items-baseline justify-between gap-x-4 text-sm">
        <span className="font-medium">{line.name}</span>
        <span className="tabular-nums">
          {line.words}
          {line.held && <span className="text-muted"> · {line.held} held for work under way</span>}
          {line.share === undefined && <span className="text-muted"> · no limit</span>}
        </span>
      </p>
      {line.share !== undefined && (
        <div
          role="meter"
          aria-label={line.name}
          aria-valuenow={Math.min(100, Math.round(100 * line.share))}
          aria-valuemin={0}
          aria-valuemax={100}
          aria-valuetext={line.words}
          className="mt-2 h-2 overflow-hidden rounded-full bg-sunken"
        >
          <div
            className={`h-full rounded-full ${line.share > 0 ? 'min-w-1' : ''} ${isNear ? 'bg-bad' : 'bg-accent'}`}
            style={{ width: `${Math.min(100, 100 * line.share)}%` }}
          />
        </div>
      )}
    </li>
  );
}
