import { useQuery } from '@tanstack/react-query';
import { TriangleAlert } from 'lucide-react';
import { ask, type Problem, type Schemas } from '../api/client';
import { isNear, type Line, linesOf } from '../api/usage';
import { Said } from '../parts/said';

/** What all of one's work has used this month, and has of what the server keeps, beside how much that may be. */
export function Usage() {
  const { data, error } = useQuery<Schemas['UserUsage'], Problem>({ queryKey: ['usage'], queryFn: () => ask('/v1/usage') });
  const lines = data ? linesOf(data) : [];
  const near = lines.filter((each) => isNear(each, data?.budget.warnAt));
  return (
    <div className="mx-auto max-w-3xl pt-2">
      <title>Usage · koda</title>
      <h1 className="text-xl font-semibold tracking-tight sm:text-2xl">Usage</h1>
      <div className="mt-5">
        <Said problem={error} />
        <div role="status" className={near.length > 0 ? 'mb-6 space-y-2 rounded-xl bg-bad-ground px-4 py-3 text-sm text-bad' : 'sr-only'}>
          {near.map(({ name, share = 0, instead }) => (
            <p key={name} className="flex gap-2.5">
              <TriangleAlert aria-hidden className="mt-0.5 size-4 shrink-0" />
              <span>
                {name}: {share < 1 ? 'nearly used up' : 'used up'}. {instead}
              </span>
            </p>
          ))}
        </div>
        {data ? <Lines usage={data} lines={lines} near={near} /> : !error && <p className="py-16 text-muted">One moment…</p>}
      </div>
    </div>
  );
}

function Lines({ usage, lines, near }: { usage: Schemas['UserUsage']; lines: readonly Line[]; near: readonly Line[] }) {
  const [there, thisMonth] = [lines.slice(0, 3), lines.slice(3)];
  return (
    <div className="space-y-6">
      <Group name="Now" lines={there} near={near} />
      <Group name={`In ${monthOf(usage.month)}`} lines={thisMonth} near={near} />
      {Boolean(usage.spent.unpricedTokens) && (
        <p className="text-sm text-muted">
          {usage.spent.unpricedTokens?.toLocaleString('en-GB')} of the tokens are of models whose price is not known: the dollars do not hold them.
        </p>
      )}
    </div>
  );
}

function Group({ name, lines, near }: { name: string; lines: readonly Line[]; near: readonly Line[] }) {
  return (
    <section className="card p-5" aria-label={name}>
      <h2 className="text-sm text-muted">{name}</h2>
      <ul className="mt-4 space-y-5">
        {lines.map((each) => (
          <li key={each.name}>
            <p className="flex flex-wrap items-baseline justify-between gap-x-4 text-sm">
              <span className="font-medium">{each.name}</span>
              <span className="tabular-nums">
                {each.words}
                {each.held && <span className="text-muted"> · {each.held} held for work under way</span>}
                {each.share === undefined && <span className="text-muted"> · no limit</span>}
              </span>
            </p>
            {each.share !== undefined && (
              <div
                role="meter"
                aria-label={each.name}
                aria-valuenow={Math.min(100, Math.round(100 * each.share))}
                aria-valuemin={0}
                aria-valuemax={100}
                aria-valuetext={each.words}
                className="mt-2 h-2 overflow-hidden rounded-full bg-sunken"
              >
                <div
                  className={`h-full rounded-full ${each.share > 0 ? 'min-w-1' : ''} ${near.includes(each) ? 'bg-bad' : 'bg-accent'}`}
                  style={{ width: `${Math.min(100, 100 * each.share)}%` }}
                />
              </div>
            )}
          </li>
        ))}
      </ul>
    </section>
  );
}

/** A month as people say it, of a year and a month in UTC. */
function monthOf(month: string): string {
  return new Date(`${month}-01T00:00:00Z`).toLocaleDateString('en-GB', { month: 'long', year: 'numeric', timeZone: 'UTC' });
}
