/** Animations that are there already, to put one of them on a canvas. */
import { useQueryClient } from '@tanstack/react-query';
import { type KeyboardEvent, useEffect, useRef, useState } from 'react';
import type { SessionSummary } from '../api/client';
import { useGallery } from '../api/gallery';
import { useFollowed } from '../api/hooks';
import { useMinutes } from '../api/minutes';
import { Line } from '../parts/card';
import { Dialog } from '../parts/dialog';
import { counted, More, Words } from '../parts/gallery';
import { Glimpse } from '../parts/glimpse';
import { Said } from '../parts/said';

const FOLLOWED = 60;
const STEPS: Readonly<Record<string, number>> = { ArrowDown: 1, ArrowUp: -1 };

interface Props {
  /** The sessions that are on the canvas. */
  there: ReadonlySet<string>;
  pick: (session: SessionSummary) => void;
  close: () => void;
}

export function Picker({ there, pick, close }: Props) {
  const [text, setText] = useState('');
  const found = useGallery({ text, show: 'all' });
  const { sessions, isRead, hasMore, isOfBefore } = found;
  useFollowed(sessions.slice(0, FOLLOWED), useQueryClient());
  const now = useMinutes();
  const root = useRef<HTMLDivElement>(null);
  useEffect(() => {
    // where there is no keyboard, it would cover what there is to choose from
    if (matchMedia('(pointer: fine)').matches) root.current?.querySelector('input')?.focus();
  }, []);
  const isNone = isRead && sessions.length === 0 && !hasMore && !isOfBefore;
  return (
    <Dialog title="Your animations" close={close} className="max-w-xl">
      <div ref={root} onKeyDown={moved}>
        <div className="mt-3">
          <Words sought={{ text }} seek={(change) => setText((change.text ?? '').trim())} className="w-full" />
        </div>
        <p role="status" className="sr-only">
          {isRead && text && !isOfBefore ? counted(sessions.length, hasMore) : ''}
        </p>
        <div className="-mx-2 mt-3 h-[min(60dvh,34rem)] overflow-y-auto">
          <Said problem={found.problem} />
          {!isRead && !found.problem && <p className="py-12 text-center text-sm text-muted">One moment…</p>}
          {isNone && <p className="py-12 text-center text-sm text-muted">{text ? `Nothing has “${text}” in its title, prompt or scenes.` : 'What you make will be here.'}</p>}
          <ul aria-label="Your animations" aria-busy={isOfBefore} className={`space-y-1 py-1 transition-opacity motion-reduce:transition-none ${isOfBefore ? 'opacity-60' : ''}`}>
            {sessions.map((each) => (
              <Row key={each.id} session={each} now={now} isThere={there.has(each.id)} pick={() => pick(each)} />
            ))}
          </ul>
          {hasMore && <More count={sessions.length} isReading={found.isReading} hasFailed={found.hasFailed} readMore={found.readMore} />}
        </div>
      </div>
    </Dialog>
  );
}

function Row({ session, now, isThere, pick }: { session: SessionSummary; now: number; isThere: boolean; pick: () => void }) {
  return (
    <li>
      <button type="button" className="flex w-full items-center gap-3.5 rounded-xl p-2 text-left -outline-offset-2 hover:bg-sunken" onClick={pick}>
        <span className="w-24 shrink-0 overflow-hidden rounded-lg border border-line sm:w-28 [&>div]:aspect-video">
          <Glimpse poster={session.thumbnailUrl} video={undefined} duration={undefined} failed={() => undefined} />
        </span>
        <span className="flex min-w-0 flex-1 flex-col gap-1">
          <span className="line-clamp-2 text-sm leading-5 font-medium wrap-anywhere">{session.title ?? session.prompt}</span>
          <Line session={session} now={now} />
          {isThere && <span className="text-sm text-accent">On this canvas</span>}
        </span>
      </button>
    </li>
  );
}

/** From the search into what it found, and from one to the next. */
function moved(event: KeyboardEvent<HTMLDivElement>) {
  const step = STEPS[event.key];
  if (step === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
  const stops = [...event.currentTarget.querySelectorAll<HTMLElement>('input, li button')];
  const next = stops[stops.indexOf(event.target as HTMLElement) + step];
  event.preventDefault();
  next?.focus();
}
