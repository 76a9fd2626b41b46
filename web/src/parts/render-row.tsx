import { Download, FileText, Film, RotateCcw, Square, SquareStack, Trash2 } from 'lucide-react';
import { type ReactNode, useEffect, useRef, useState } from 'react';
import { Link } from 'wouter';
import { ago } from '../api/dates';
import { isKept, useBatchCancelled, useOrders, useRemoval } from '../api/queue';
import { canAgain, isOver, nameOf, pictureWords, progressWords, type RenderSummary, stateWords } from '../api/renders';
import { Bar } from './bar';
import { Button } from './button';
import { useDraft } from './draft';
import { Said } from './said';
import { Sure } from './sure';

const QUIET = 'inline-flex min-h-10 items-center gap-2 rounded-xl px-3 py-2 text-sm text-muted hover:bg-sunken hover:text-text';

/** One render: what it is, where it is, and what can be done with it. */
export function RenderRow({ render, now }: { render: RenderSummary; now: number }) {
  const item = useRef<HTMLLIElement>(null);
  const over = isOver(render);
  const name = nameOf(render);
  const [gone, setGone] = useState(false);
  useKeptFocus(item, over);
  return (
    <li ref={item} tabIndex={-1} aria-label={`${name}, ${stateWords(render)}`} className="card flex flex-wrap gap-x-5 gap-y-3 p-3 sm:flex-nowrap">
      <Picture render={render} gone={() => setGone(true)} />
      <div className="flex min-w-0 flex-1 flex-col justify-center gap-1.5 max-sm:basis-[calc(100%-8rem)]">
        <h2 className="line-clamp-2 font-medium wrap-anywhere">
          <Link href={render.sessionId ? `/s/${render.sessionId}` : `/renders/${render.id}`} className="rounded-sm underline-offset-4 hover:underline">
            {name}
          </Link>
        </h2>
        <p className="text-sm text-muted tabular-nums">{joined([...pictureWords(render), ago(render.createdAt, now)])}</p>
        {over ? <Ended render={render} /> : <Progress render={render} name={name} />}
      </div>
      <Orders render={render} name={name} gone={gone} />
    </li>
  );
}

function Picture({ render, gone }: { render: RenderSummary; gone: () => void }) {
  const [failed, setFailed] = useState(false);
  const missing = () => {
    setFailed(true);
    // a picture that cannot be shown may be of a video that is not kept any more
    if (render.videoUrl) void isKept(render.videoUrl).then((kept) => kept || gone());
  };
  return (
    <div className="grid aspect-video w-26 shrink-0 place-items-center self-start overflow-hidden rounded-lg bg-sunken sm:w-40">
      {render.thumbnailUrl && !failed ? (
        <img src={render.thumbnailUrl} alt="" loading="lazy" className="size-full object-contain" onError={missing} />
      ) : (
        <Film aria-hidden className="size-6 text-muted opacity-50" />
      )}
    </div>
  );
}

export function Progress({ render, name }: { render: RenderSummary; name: string }) {
  const begun = render.status === 'running';
  return (
    <>
      {begun && <Bar label={`Rendering ${name}`} percent={render.percent} glides />}
      <p className="flex items-start gap-2 text-sm text-muted tabular-nums">
        <span aria-hidden className={`mt-1.75 size-1.5 shrink-0 rounded-full bg-current ${begun ? 'breathing text-accent' : ''}`} />
        {joined([stateWords(render), ...(begun ? progressWords(render) : [])])}
      </p>
    </>
  );
}

function Ended({ render }: { render: RenderSummary }) {
  const colour = { succeeded: 'text-good', failed: 'text-bad' }[render.status as string] ?? 'text-muted';
  const code = told(render.error?.code);
  const message = told(render.error?.message);
  return (
    <div className={`text-sm ${colour}`}>
      {message ? (
        <details>
          <summary className="min-h-6 w-fit cursor-pointer">
            {stateWords(render)}
            {code && render.status === 'failed' && <code className="ml-2 text-xs">{code}</code>}
          </summary>
          <p className="mt-1.5 max-w-prose text-text wrap-anywhere whitespace-pre-wrap">{message}</p>
        </details>
      ) : (
        <p className="flex items-center gap-2">
          <span aria-hidden className="size-1.5 shrink-0 rounded-full bg-current" />
          {stateWords(render)}
        </p>
      )}
    </div>
  );
}

interface OrdersProps {
  render: RenderSummary;
  name: string;
  /** Whether its video is not kept any more. */
  gone: boolean;
  /** Where it stands alone: is told what it is made again as. */
  begun?: (id: string) => void;
  /** Where it stands alone: it is deleted. */
  removed?: () => void;
}

export function Orders({ render, name, gone, begun, removed }: OrdersProps) {
  const orders = useOrders(render, begun);
  const order = (what: 'cancel' | 'again', label: string, words: string, icon: ReactNode, why?: string) => (
    <Button
      kind="quiet"
      aria-label={`${label} ${name}`}
      aria-disabled={orders.isPending}
      className="aria-disabled:opacity-60"
      title={why}
      onClick={() => orders.give(what)}
    >
      {icon} {words}
    </Button>
  );
  return (
    <div className="flex flex-wrap items-center justify-end gap-1 max-sm:-mt-2 max-sm:w-full sm:max-w-80 sm:shrink-0">
      {!isOver(render) &&
        order(
          'cancel',
          'Cancel',
          'Cancel',
          <Square aria-hidden className="size-4" />,
          render.kind === 'preview' ? 'Stops what the agents are making; what was there before is kept' : 'What is rendered is kept for the next time',
        )}
      {!isOver(render) && render.batchId && <Batch key={render.batchId} id={render.batchId} name={name} />}
      {canAgain(render) && order('again', 'Render again:', 'Again', <RotateCcw aria-hidden className="size-4" />, 'The same once more')}
      {render.status === 'succeeded' && render.kind === 'render' && (
        <a className={QUIET} href={`${render.stateUrl}/report?format=html`} target="_blank" rel="noreferrer" aria-label={`Report on ${name}`}>
          <FileText aria-hidden className="size-4" /> Report
        </a>
      )}
      {render.videoUrl &&
        (gone ? (
          <span className="px-3 text-sm text-muted">Not kept any more</span>
        ) : (
          <a className={`${QUIET} text-text`} href={saved(render.videoUrl)} aria-label={`Download ${name}`}>
            <Download aria-hidden className="size-4" /> Download
          </a>
        ))}
      {canAgain(render) && <Delete render={render} name={name} removed={removed} />}
      {orders.problem && (
        <div className="w-full">
          <Said problem={orders.problem} />
        </div>
      )}
    </div>
  );
}

/** All that is left of a batch is cancelled at once, where somebody says so twice. */
function Batch({ id, name }: { id: string; name: string }) {
  const [asked, setAsked, opener] = useDraft();
  const cancelling = useBatchCancelled(id);
  if (asked === undefined)
    return (
      <button ref={opener} type="button" className={QUIET} aria-label={`Cancel the batch of ${name}`} title="All that is left of its batch" onClick={() => setAsked('')}>
        <SquareStack aria-hidden className="size-4" /> Cancel the batch
      </button>
    );
  const leave = () => {
    cancelling.reset();
    setAsked(undefined);
  };
  return (
    <Sure
      label={`Cancel the batch of ${name}`}
      yes="Cancel them all"
      no="Keep them"
      problem={cancelling.error}
      busy={cancelling.isPending}
      act={() => cancelling.mutate()}
      leave={leave}
    >
      Every video of this batch that is not done is cancelled. What is done stays.
    </Sure>
  );
}

/** What is over is deleted with its video, where somebody says so twice; the next one has the focus then. */
function Delete({ render, name, removed }: Pick<OrdersProps, 'render' | 'name' | 'removed'>) {
  const [asked, setAsked, opener] = useDraft();
  const place = useRef<HTMLDivElement>(null);
  const removing = useRemoval(render, () => {
    if (removed) return removed();
    const row = place.current?.closest('li');
    const next = row?.nextElementSibling ?? row?.previousElementSibling ?? document.querySelector('h1');
    if (next instanceof HTMLElement) next.focus({ preventScroll: true });
  });
  if (asked === undefined)
    return (
      <button ref={opener} type="button" className={QUIET} aria-label={`Delete ${name}`} title="Delete" onClick={() => setAsked('')}>
        <Trash2 aria-hidden className="size-4" />
      </button>
    );
  const leave = () => {
    removing.reset();
    setAsked(undefined);
  };
  return (
    <div ref={place} className="w-full">
      <Sure label={`Delete ${name}`} yes="Delete it" no="Keep it" problem={removing.error} busy={removing.isPending} act={() => removing.mutate()} leave={leave}>
        {render.sessionId
          ? 'This video goes for good, and links to it show nothing any more. Its animation stays, and can be rendered again.'
          : 'It goes for good, with its video and its report. The page itself is kept for a while, to be rendered again.'}
      </Sure>
    </div>
  );
}

/** Keep the focus where it was when what had it is not there any more, since the render ended. */
function useKeptFocus(item: { current: HTMLLIElement | null }, over: boolean) {
  const within = useRef(false);
  useEffect(() => {
    const row = item.current;
    if (within.current && document.activeElement === document.body) row?.focus({ preventScroll: true });
    const came = () => (within.current = true);
    const left = ({ relatedTarget }: FocusEvent) => (within.current = !(relatedTarget instanceof Node) || Boolean(row?.contains(relatedTarget)));
    row?.addEventListener('focusin', came);
    row?.addEventListener('focusout', left);
    return () => {
      row?.removeEventListener('focusin', came);
      row?.removeEventListener('focusout', left);
    };
  }, [item, over]);
}

function told(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

function saved(url: string): string {
  return `${url}${url.includes('?') ? '&' : '?'}download=true`;
}

function joined(words: readonly string[]): string {
  return words.join(' · ');
}
