import { useQuery } from '@tanstack/react-query';
import { RotateCcw } from 'lucide-react';
import { useId } from 'react';
import { ask, Problem, type Schemas } from '../api/client';
import { agentsWords, capacitiesOf, type Cluster, clusterLines, nodeWords, readyWords, type Told } from '../api/server';
import { Measure } from './measure';
import { Said } from './said';

/** Of a limit for all, from this share on it is nearly used up. */
const NEAR = 0.9;
const FORBIDDEN = 403;

/** What the server is and does, as far as who looks may know; asked for when somebody looks, and not again by itself. */
export function Server() {
  const health = useQuery<Schemas['Health'], Problem>({ queryKey: ['server', 'health'], queryFn: () => ask('/v1/health') });
  const ready = useQuery<Schemas['Readiness'], Problem>({ queryKey: ['server', 'ready'], queryFn: readiness, retry: false });
  const agents = useQuery<Schemas['Capabilities'], Problem>({ queryKey: ['capabilities'], queryFn: () => ask('/v1/capabilities'), staleTime: Infinity });
  const cluster = useQuery<Cluster, Problem>({ queryKey: ['server', 'cluster'], queryFn: ({ signal }) => ask('/v1/cluster', { signal }), retry: false });
  const isFetching = health.isFetching || ready.isFetching || cluster.isFetching;
  const again = () => void Promise.all([health.refetch(), ready.refetch(), cluster.refetch()]);
  const name = useId();
  const lines: Told[] = [
    ...(health.data ? [['koda', health.data.version] as const] : []),
    ...(agents.data ? [['Agents', agentsWords(agents.data)] as const] : []),
    ...(cluster.data ? clusterLines(cluster.data) : []),
  ];
  return (
    <section aria-labelledby={name} className="card p-5">
      <div className="flex min-h-8 items-center justify-between gap-3">
        <h2 id={name} className="text-sm text-muted">
          This server
        </h2>
        <button
          type="button"
          aria-label="Look at the server again"
          title="Look again"
          aria-disabled={isFetching}
          className="-mr-1.5 grid size-8 place-items-center rounded-lg text-muted hover:bg-sunken hover:text-text aria-disabled:opacity-60"
          onClick={() => isFetching || again()}
        >
          <RotateCcw aria-hidden className="size-4" />
        </button>
      </div>
      <p role="status" className="mt-2 flex items-start gap-2 text-sm">
        {ready.data && (
          <>
            <span aria-hidden className={`mt-1.75 size-1.5 shrink-0 rounded-full ${ready.data.ready ? 'bg-good' : 'bg-bad'}`} />
            <span className="min-w-0 wrap-anywhere">{readyWords(ready.data)}</span>
          </>
        )}
      </p>
      <div className="mt-3 space-y-4">
        <Said problem={ready.error ?? (cluster.error?.status === FORBIDDEN ? null : cluster.error)} />
        {cluster.data && capacitiesOf(cluster.data).length > 0 && (
          <ul aria-label="How full it is" className="space-y-4">
            {capacitiesOf(cluster.data).map((line) => (
              <Measure key={line.name} line={line} isNear={(line.share ?? 0) >= NEAR} />
            ))}
          </ul>
        )}
        <dl className="space-y-2 text-sm">
          {lines.map(([each, words]) => (
            <div key={each} className="grid grid-cols-[6rem_minmax(0,1fr)] gap-x-3">
              <dt className="text-muted">{each}</dt>
              <dd className="wrap-anywhere tabular-nums">{words}</dd>
            </div>
          ))}
        </dl>
        {cluster.data?.nodes && cluster.data.nodes.length > 1 && (
          <details className="text-sm">
            <summary className="min-h-6 w-fit cursor-pointer text-muted">Its machines</summary>
            <ul aria-label="Its machines" className="mt-1 space-y-1">
              {cluster.data.nodes.map((each) => (
                <li key={each.id} className="flex flex-wrap justify-between gap-x-4">
                  <span className="font-mono text-xs leading-5 wrap-anywhere">{each.address}</span>
                  <span className="text-muted">{nodeWords(each)}</span>
                </li>
              ))}
            </ul>
          </details>
        )}
      </div>
    </section>
  );
}

/** What is answered where it takes no work says why: that is no problem of who asked. */
async function readiness(): Promise<Schemas['Readiness']> {
  const response = await fetch('/v1/ready', { cache: 'no-store' }).catch(() => {
    throw new Problem(0, 'UNREACHABLE', 'The server does not answer just now.');
  });
  return (await response.json()) as Schemas['Readiness'];
}
