import { useQuery } from '@tanstack/react-query';
import { Box, ChevronLeft, ChevronRight, TriangleAlert } from 'lucide-react';
import type { ReactNode } from 'react';
import { Link, useLocation, useSearch } from 'wouter';
import { clock } from '../../node/src/clock';
import { ask, type Problem, type Schemas } from '../api/client';
import { figure, monthOf } from '../api/dates';
import { isNear, type Line, linesOf, monthAfter } from '../api/usage';
import { Measure } from '../parts/measure';
import { Said } from '../parts/said';

/** What all of one's work has used in a month, and has of what the server keeps, beside how much that may be. */
export function Usage() {
  const asked = new URLSearchParams(useSearch()).get('month');
  const { data, error } = useQuery<Schemas['UserUsage'], Problem>({
    queryKey: ['usage', asked],
    queryFn: () => ask(asked === null ? '/v1/usage' : `/v1/usage?month=${encodeURIComponent(asked)}`),
    placeholderData: (before) => before, // what has the focus stays
  });
  const lines = data ? linesOf(data) : [];
  const isOver = data !== undefined && data.month < thisMonth(); // of what is over nobody needs to be warned
  const near = lines.filter((each, at) => isNear(each, data?.budget.warnAt) && (at < OF_NOW || !isOver));
  return (
    <div className="mx-auto max-w-3xl pt-2">
      <title>Usage · koda</title>
      <div className="flex items-center justify-between gap-3">
        <h1 className="text-xl font-semibold tracking-tight sm:text-2xl">Usage</h1>
        {/* where the bar has no room for it */}
        <Link href="/sandboxes" className="-mr-2 inline-flex min-h-9 items-center gap-2 rounded-lg px-2 text-sm text-muted hover:bg-sunken hover:text-text min-[24rem]:hidden">
          <Box aria-hidden className="size-4" /> Sandboxes
        </Link>
      </div>
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

/** So many of the lines say what there is now, whichever month is looked at. */
const OF_NOW = 3;

function thisMonth(): string {
  return new Date(clock.now()).toISOString().slice(0, 7);
}

function Lines({ usage, lines, near }: { usage: Schemas['UserUsage']; lines: readonly Line[]; near: readonly Line[] }) {
  const [there, inMonth] = [lines.slice(0, OF_NOW), lines.slice(OF_NOW)];
  return (
    <div className="space-y-6">
      <Group name="Now" lines={there} near={near} />
      <Group name={`In ${monthOf(usage.month)}`} lines={inMonth} near={near}>
        <OtherMonths month={usage.month} />
      </Group>
      {Boolean(usage.spent.unpricedTokens) && (
        <p className="text-sm text-muted">
          {figure(usage.spent.unpricedTokens ?? 0)} of the tokens are of models whose price is not known: the dollars do not hold them.
        </p>
      )}
    </div>
  );
}

function OtherMonths({ month }: { month: string }) {
  const [, go] = useLocation();
  const isLast = month >= thisMonth();
  const step = (by: number) => {
    const to = monthAfter(month, by);
    go(to < thisMonth() ? `/usage?month=${to}` : '/usage');
  };
  return (
    <div role="group" aria-label="Other months" className="flex gap-1">
      <button type="button" aria-label="The month before" title="The month before" className={STEP} onClick={() => step(-1)}>
        <ChevronLeft aria-hidden className="size-4" />
      </button>
      <button type="button" aria-label="The next month" title="The next month" className={STEP} aria-disabled={isLast} onClick={() => isLast || step(1)}>
        <ChevronRight aria-hidden className="size-4" />
      </button>
    </div>
  );
}

const STEP = 'grid size-8 place-items-center rounded-lg text-muted hover:bg-sunken hover:text-text aria-disabled:opacity-40';

function Group({ name, lines, near, children }: { name: string; lines: readonly Line[]; near: readonly Line[]; children?: ReactNode }) {
  return (
    <section className="card p-5" aria-label={name}>
      <div className="flex min-h-8 items-center justify-between gap-3">
        <h2 className="text-sm text-muted">{name}</h2>
        {children}
      </div>
      <ul className="mt-4 space-y-5">
        {lines.map((each) => (
          <Measure key={each.name} line={each} isNear={near.includes(each)} />
        ))}
      </ul>
    </section>
  );
}
