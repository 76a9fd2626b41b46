import { useInfiniteQuery, useMutation, useQueryClient } from '@tanstack/react-query';
import { GitFork, History } from 'lucide-react';
import { useEffect, useRef, useState } from 'react';
import { useLocation } from 'wouter';
import { clock } from '../../node/src/clock';
import { ask, command, Problem, type Schemas, type SessionView } from '../api/client';
import { ago } from '../api/dates';
import { isStep, type Point, pointWords } from '../api/this-session';
import { Button } from './button';
import { useDraft } from './draft';
import { Part } from './part';
import { Said } from './said';
import { Sure } from './sure';

type Back = { to: string } | { undo: true };

/** Where a session can go back to, newest first; another one can begin at each of these points. */
export function Past({ session, isMeant, leave }: { session: SessionView; isMeant: boolean; leave: () => void }) {
  const { id, seq } = session;
  const client = useQueryClient();
  const place = useRef<HTMLDivElement>(null);
  const [every, setEvery] = useState(false);
  const [wasBack, setBack] = useState<string>();
  const read = useInfiniteQuery<Schemas['HistoryView'], Problem, Point[], string[], string | null>({
    queryKey: ['history', id],
    initialPageParam: null,
    queryFn: ({ pageParam }) => ask(`/v1/sessions/${id}/history?limit=100${pageParam === null ? '' : `&before=${encodeURIComponent(pageParam)}`}`),
    getNextPageParam: (page) => page.next ?? undefined,
    select: ({ pages }) => pages.flatMap(({ points }) => points),
    staleTime: 0,
  });
  const isThere = read.data !== undefined;
  const heading = () => place.current?.closest('section')?.querySelector('h3');
  useEffect(() => void client.invalidateQueries({ queryKey: ['history', id] }), [client, id, seq]);
  useEffect(() => {
    if (!isMeant || !isThere) return;
    heading()?.focus({ preventScroll: true });
    heading()?.scrollIntoView({ block: 'start' });
  }, [isMeant, isThere]);
  const going = useMutation<unknown, Problem, Back>({
    mutationFn: (body) => command(session, 'rewind', body),
    onSettled: () => Promise.all([['session', id], ['history', id]].map((queryKey) => client.invalidateQueries({ queryKey }))),
  });
  const undo = () =>
    going.mutate(
      { undo: true },
      {
        onSuccess: () => {
          setBack('');
          heading()?.focus(); // its button goes
        },
      },
    );
  const points = read.data ?? [];
  const steps = points.filter(isStep).length;
  const shown = every ? points : points.filter((each) => !isStep(each));
  return (
    <Part name="Go back, or another way">
      <div ref={place} className="space-y-3 text-sm">
        <p className="text-muted">At each point it can be again what it was then, and another session can begin there.</p>
        <div className="-ml-3">
          <Fork session={session} leave={leave}>
            Another session from here
          </Fork>
        </div>
        <Said problem={read.error} />
        <p role="status" className={wasBack ? 'flex flex-wrap items-center gap-x-3' : 'sr-only'}>
          {wasBack === '' && 'It is again as it was before.'}
          {wasBack && (
            <>
              It is again as it was at “{wasBack}”.
              <button type="button" className="min-h-8 text-accent underline underline-offset-4" disabled={going.isPending} onClick={undo}>
                Undo
              </button>
            </>
          )}
        </p>
        {wasBack !== undefined && <Said problem={going.error} />}
        {isThere && points.length === 0 && <p className="text-muted">There is no earlier point yet: nothing was said to agents, and no file was saved.</p>}
        {steps > 0 && (
          <label className="flex min-h-8 cursor-pointer items-center gap-2.5">
            <input type="checkbox" className="size-4 accent-(--accent)" checked={every} onChange={({ target }) => setEvery(target.checked)} />
            Every call of a tool, too
          </label>
        )}
        <ol aria-label="Points" className="divide-y divide-line">
          {shown.map((each) => (
            <PointRow
              key={each.id}
              point={each}
              session={session}
              back={(words) => going.mutateAsync({ to: each.id }).then(() => setBack(words))}
              problem={going.variables && 'to' in going.variables && going.variables.to === each.id ? going.error : null}
              reset={going.reset}
              busy={going.isPending}
              leave={leave}
            />
          ))}
        </ol>
        {read.hasNextPage && (
          <Button disabled={read.isFetchingNextPage} onClick={() => void read.fetchNextPage()}>
            Show more
          </Button>
        )}
      </div>
    </Part>
  );
}

interface RowProps {
  point: Point;
  session: SessionView;
  back: (words: string) => Promise<void>;
  problem: Problem | null;
  reset: () => void;
  busy: boolean;
  leave: () => void;
}

function PointRow({ point, session, back, problem, reset, busy, leave }: RowProps) {
  const [asked, setAsked, opener] = useDraft();
  const { who, words } = pointWords(point);
  const close = () => {
    reset();
    setAsked(undefined);
  };
  return (
    <li className="py-2.5">
      <div className="flex flex-wrap items-center gap-x-3 gap-y-1">
        <div className="mr-auto min-w-0 flex-1 basis-60">
          <p className="text-muted">{[who, ago(point.createdAt, clock.now()), point.undone && 'gone back to since'].filter(Boolean).join(' · ')}</p>
          <p className="line-clamp-2 wrap-anywhere">{words}</p>
        </div>
        {asked === undefined && (
          <button
            ref={opener}
            type="button"
            aria-label={`Go back to: ${words}`}
            className="inline-flex min-h-9 shrink-0 items-center gap-2 rounded-lg px-3 text-muted hover:bg-sunken hover:text-text"
            onClick={() => setAsked('')}
          >
            <History aria-hidden className="size-4" /> Go back
          </button>
        )}
        <Fork session={session} at={point.id} label={`Another session from: ${words}`} leave={leave}>
          Another session
        </Fork>
      </div>
      {asked !== undefined && (
        <Sure
          label={`Go back to: ${words}`}
          yes="Go back"
          no="Stay here"
          problem={problem}
          busy={busy}
          act={() => void back(words).then(close, () => undefined)}
          leave={close}
        >
          What was said, the files, the plan and the video will be those of then. {session.state.owes && 'What is being made now is stopped. '}
          Nothing is lost: where it is now stays in this list, and what was used, the limits and what agents may do stay as they are.
        </Sure>
      )}
    </li>
  );
}

interface ForkProps {
  session: SessionView;
  /** The point; left out, where it is now. */
  at?: string;
  label?: string;
  leave: () => void;
  children: string;
}

/** Have another session begin somewhere, and go there. */
function Fork({ session, at, label, leave, children }: ForkProps) {
  const [, go] = useLocation();
  const fork = useMutation<Schemas['SessionCreated'], Problem>({
    mutationFn: () => command(session, 'fork', at === undefined ? {} : { at }) as Promise<Schemas['SessionCreated']>,
    onSuccess: ({ sessionId }) => {
      leave();
      go(`/s/${sessionId}`);
    },
  });
  return (
    <>
      <button
        type="button"
        aria-label={fork.isPending ? undefined : label}
        title="It begins with what was said and made by then; this one stays as it is"
        className="inline-flex min-h-9 shrink-0 items-center gap-2 rounded-lg px-3 text-muted hover:bg-sunken hover:text-text disabled:opacity-60"
        disabled={fork.isPending}
        onClick={() => fork.mutate()}
      >
        <GitFork aria-hidden className={`size-4 ${fork.isPending ? 'breathing' : ''}`} /> {fork.isPending ? 'It is being made…' : children}
      </button>
      {fork.error && (
        <div className="w-full">
          <Said problem={fork.error} />
        </div>
      )}
    </>
  );
}
