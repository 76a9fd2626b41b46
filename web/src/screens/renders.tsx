import { WifiOff, X } from 'lucide-react';
import { Link } from 'wouter';
import { useMinutes } from '../api/minutes';
import { useParams } from '../api/params';
import { FILTERS, useQueue } from '../api/queue';
import { addressIn, type Shown, shownIn } from '../api/renders';
import { useStanding } from '../parts/away';
import { Button } from '../parts/button';
import { Words } from '../parts/gallery';
import { OwnPage } from '../parts/own-page';
import { RenderRow } from '../parts/render-row';
import { Said } from '../parts/said';

const NOTHING: Record<Shown, string> = {
  all: 'Nothing was rendered yet.',
  running: 'Nothing is under way.',
  done: 'Nothing is done yet.',
  failed: 'Nothing has failed.',
};
const WHICH: Record<Exclude<Shown, 'all'>, string> = { running: 'under way', done: 'done', failed: 'failed' };

/** All that is rendered and was, of sessions and of pages. */
export function Renders() {
  const [params, put] = useParams();
  const shown = shownIn(String(params));
  const text = (params.get('q') ?? '').trim();
  const seek = (words: string) => put({ q: words.trim() || undefined });
  const queue = useQueue(shown, text);
  const now = useMinutes();
  const isSaid = useStanding() !== 'there';
  return (
    <>
      <title>Renders · koda</title>
      <div className="flex flex-wrap items-center gap-x-6 gap-y-3 pt-2">
        <h1 tabIndex={-1} className="text-xl font-semibold tracking-tight sm:text-2xl">
          Renders
        </h1>
        <nav aria-label="Which renders">
          <ul className="flex rounded-xl bg-sunken p-1">
            {FILTERS.map(([name, words]) => (
              <li key={name}>
                <Link
                  href={addressIn(name, text)}
                  aria-current={name === shown ? 'page' : undefined}
                  className="inline-flex min-h-8 items-center rounded-lg px-3 text-sm text-muted hover:text-text aria-[current]:bg-panel aria-[current]:font-medium aria-[current]:text-text aria-[current]:shadow-sm"
                >
                  {words}
                </Link>
              </li>
            ))}
          </ul>
        </nav>
        <span className="sm:flex-1" />
        <Words sought={{ text }} seek={(words) => seek(words.text)} />
        <OwnPage />
      </div>
      <p role="status" className="sr-only">
        {queue.said}
      </p>
      <p role="status" className="sr-only">
        {text && !queue.isPending && !queue.isOfBefore ? counted(queue.renders.length, Boolean(queue.moreOver)) : ''}
      </p>
      {queue.isLost && !isSaid && (
        <p role="status" className="mt-4 flex items-center gap-2 text-sm text-bad">
          <WifiOff aria-hidden className="size-4 shrink-0" /> The server does not answer just now; this is as it was. It goes on by itself.
        </p>
      )}
      <div className="mt-5 space-y-5">
        <Said problem={queue.problem} />
        {queue.isPending ? (
          !queue.problem && <p className="py-16 text-muted">One moment…</p>
        ) : queue.renders.length === 0 && text ? (
          <div className="py-16 text-center">
            <p>{`Nothing has “${text}” in its name${shown === 'all' ? '' : ` among what is ${WHICH[shown]}`}${queue.moreOver ? ', of what was looked at by now' : ''}.`}</p>
            <Button className="mt-4" onClick={() => seek('')}>
              <X aria-hidden className="size-4" /> Clear the search
            </Button>
          </div>
        ) : queue.renders.length === 0 ? (
          <div className="py-16 text-center text-muted">
            <p>{NOTHING[shown]}</p>
            {shown === 'all' && (
              <Link href="/" className="mt-3 inline-block text-accent underline underline-offset-4">
                Make something
              </Link>
            )}
          </div>
        ) : (
          <ul className={`space-y-3 transition-opacity motion-reduce:transition-none ${queue.isOfBefore ? 'opacity-60' : ''}`} aria-label="Renders" aria-busy={queue.isOfBefore}>
            {queue.renders.map((each) => (
              <RenderRow key={each.id} render={each} now={now} />
            ))}
          </ul>
        )}
        {queue.moreWaiting && (
          <p className="text-center">
            <Button onClick={queue.moreWaiting}>Show all that wait</Button>
          </p>
        )}
        {queue.moreOver && (
          <p className="text-center">
            <Button onClick={queue.moreOver} disabled={queue.isReading}>
              Show more
            </Button>
          </p>
        )}
      </div>
    </>
  );
}

function counted(count: number, hasMore: boolean): string {
  return count === 1 && !hasMore ? 'One render' : `${count}${hasMore ? ' or more' : ''} renders`;
}
