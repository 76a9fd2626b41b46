import { useQueryClient } from '@tanstack/react-query';
import { ListFilter, Search } from 'lucide-react';
import { Suspense, useEffect, useRef, useState } from 'react';
import type { SessionSummary } from '../api/client';
import { isNarrowed, SHOWN, type Sought, useGallery, useSought } from '../api/gallery';
import { useFollowed } from '../api/hooks';
import { useMinutes } from '../api/minutes';
import { useTold } from '../api/told';
import { Button } from './button';
import { Card } from './card';
import { late } from './late';
import { Said } from './said';

const Narrowing = late(() => import('./narrowing').then((module) => module.Narrowing));
const None = late(() => import('./narrowing').then((module) => module.None));

const FOLLOWED = 60;
const TYPED_MS = 250;
const AHEAD = '800px';

/** All that somebody has made: looked for by words, by where it is and more; pinned ones first, then what changed last. */
export function Gallery() {
  const [sought, seek] = useSought();
  const found = useGallery(sought);
  const { sessions, isRead, hasMore } = found;
  useFollowed(sessions.slice(0, FOLLOWED), useQueryClient());
  const said = useTold(sessions, found.isKept, nameOf);
  const now = useMinutes();
  const isLess = isNarrowed(sought);
  const isAll = !sought.text && sought.show === 'all' && !isLess;
  const [isOpen, setOpen] = useState(isLess);
  useEffect(() => {
    if (isLess) setOpen(true); // so an address may say, that was gone back to
  }, [isLess]);
  const isNone = isRead && sessions.length === 0 && !hasMore;
  if (isNone && isAll)
    return found.isOfBefore ? null : <p className="mt-16 text-center text-muted">What you make will be here, to go on with whenever you like.</p>;
  return (
    <section aria-labelledby="all" className="mt-16">
      <div className="mb-6 flex flex-wrap items-center gap-x-4 gap-y-3">
        <h2 id="all" tabIndex={-1} className="mr-auto text-lg font-semibold tracking-tight">
          Your animations
        </h2>
        <Shows sought={sought} seek={seek} />
        <Words sought={sought} seek={seek} className="w-full flex-1 sm:w-64 sm:flex-none" />
        <button
          type="button"
          aria-label="Choose among them"
          title="Choose among them"
          aria-expanded={isOpen}
          className={`grid size-10 place-items-center rounded-xl border border-line-strong hover:bg-sunken ${isLess ? 'bg-accent-ground text-accent' : 'text-muted'}`}
          onClick={() => setOpen(!isOpen)}
        >
          <ListFilter aria-hidden className="size-4" />
        </button>
        <Suspense fallback={null}>{isOpen && <Narrowing sought={sought} seek={seek} />}</Suspense>
      </div>
      <Said problem={found.problem} />
      <p role="status" className="sr-only">
        {isRead && !isAll && !found.isOfBefore ? counted(sessions.length, hasMore) : ''}
      </p>
      <p role="status" className="sr-only">
        {said}
      </p>
      <Suspense fallback={null}>{isNone && <None sought={sought} seek={seek} />}</Suspense>
      <ul aria-labelledby="all" aria-busy={found.isOfBefore} className={`grid grid-cols-1 gap-5 transition-opacity motion-reduce:transition-none sm:grid-cols-2 lg:grid-cols-3 xl:grid-cols-4 ${found.isOfBefore ? 'opacity-60' : ''}`}>
        {sessions.map((each) => (
          <Card key={each.id} session={each} now={now} />
        ))}
      </ul>
      {hasMore && <More count={sessions.length} isReading={found.isReading} hasFailed={found.hasFailed} readMore={found.readMore} />}
    </section>
  );
}

function nameOf({ title, prompt }: SessionSummary): string {
  return (title ?? prompt).slice(0, 60);
}

export interface Seeking {
  sought: Sought;
  seek: (change: Partial<Sought>) => void;
}

function Shows({ sought, seek }: Seeking) {
  return (
    <fieldset className="-mx-4 flex w-[calc(100%+2rem)] min-w-0 gap-1 overflow-x-auto px-4 py-1 sm:mx-0 sm:w-auto sm:px-0">
      <legend className="sr-only">Which</legend>
      {SHOWN.map(([name, words]) => (
        <label
          key={name}
          className="flex min-h-9 shrink-0 cursor-pointer items-center rounded-full px-3.5 text-sm text-muted hover:text-text has-checked:bg-accent-ground has-checked:font-medium has-checked:text-accent has-focus-visible:outline-2 has-focus-visible:outline-accent"
        >
          <input type="radio" name="show" className="sr-only" checked={sought.show === name} onChange={() => seek({ show: name })} />
          {words}
        </label>
      ))}
    </fieldset>
  );
}

/** The words that are looked for: typed at once, looked for and in the address a moment later. */
export function Words({ sought, seek, className = 'w-full sm:w-64' }: { sought: Pick<Sought, 'text'>; seek: (change: { text: string }) => void; className?: string }) {
  const [text, setText] = useState(sought.text);
  const now = useRef<() => void>(undefined);
  now.current = () => text.trim() !== sought.text && seek({ text });
  useEffect(() => setText((typed) => (typed.trim() === sought.text ? typed : sought.text)), [sought.text]);
  useEffect(() => {
    const timer = setTimeout(() => now.current?.(), TYPED_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return (
    <label className={`relative block ${className}`}>
      <span className="sr-only">Search</span>
      <Search aria-hidden className="pointer-events-none absolute top-3 left-3 size-4 text-muted" />
      <input
        type="search"
        className="min-h-10 w-full rounded-xl border border-line-strong bg-panel pr-3 pl-9 text-sm placeholder:text-muted"
        placeholder="Search"
        maxLength={200}
        value={text}
        onChange={(event) => setText(event.target.value)}
      />
    </label>
  );
}

/** The rest, as one comes there, or where one asks for it. */
export function More({ count, isReading, hasFailed, readMore }: { count: number; isReading: boolean; hasFailed: boolean; readMore: () => void }) {
  const place = useRef<HTMLParagraphElement>(null);
  const now = useRef(readMore);
  now.current = readMore;
  useEffect(() => {
    if (isReading || hasFailed || !place.current) return;
    const near = new IntersectionObserver(([seen]) => seen?.isIntersecting && now.current(), { rootMargin: AHEAD });
    near.observe(place.current);
    return () => near.disconnect();
  }, [count, isReading, hasFailed]); // a page may be short, and the end of the list as near as before
  return (
    <p ref={place} className="mt-8 text-center">
      <Button onClick={() => !isReading && readMore()} aria-disabled={isReading}>
        {isReading ? 'One moment…' : 'Show more'}
      </Button>
    </p>
  );
}

export function counted(count: number, hasMore: boolean): string {
  return count === 1 && !hasMore ? 'One animation' : `${count}${hasMore ? ' or more' : ''} animations`;
}
