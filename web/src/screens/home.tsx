import { keepPreviousData, useInfiniteQuery, useQuery, useQueryClient } from '@tanstack/react-query';
import { Film, Search } from 'lucide-react';
import { useDeferredValue, useState } from 'react';
import { Link } from 'wouter';
import { ask, Problem, type Schemas, type SessionSummary } from '../api/client';
import { useFollowed } from '../api/hooks';
import { Button } from '../parts/button';
import { Composer } from '../parts/composer';
import { Phase } from '../parts/phase';
import { Said } from '../parts/said';
import { PinButton } from '../parts/title';

const PAGE = 24;
const FOLLOWED = 60;
const WHICH: [asked: string, words: string][] = [
  ['', 'All'],
  ['turn=person', 'Waiting for you'],
  ['turn=agents', 'At work'],
  ['phase=complete', 'Finished'],
  ['phase=error', 'Stopped'],
];

export function Home() {
  const [text, setText] = useState('');
  const [only, setOnly] = useState('');
  const sought = useDeferredValue(text.trim());
  const client = useQueryClient();
  const found = useInfiniteQuery<Schemas['SessionPage'], Problem, SessionSummary[], string[], string | null>({
    queryKey: ['sessions', sought, only],
    initialPageParam: null,
    placeholderData: keepPreviousData,
    queryFn: ({ pageParam, signal }) => ask(address(only, sought, { pinned: 'false', limit: PAGE, before: pageParam }), { signal }),
    getNextPageParam: (page) => page.next ?? undefined,
    select: ({ pages }) => pages.flatMap((page) => page.sessions),
  });
  const pinned = useQuery<Schemas['SessionPage'], Problem>({
    queryKey: ['sessions', sought, only, 'pinned'],
    placeholderData: keepPreviousData,
    queryFn: ({ signal }) => ask(address(only, sought, { pinned: 'true', limit: FOLLOWED }), { signal }),
  });
  const first = pinned.data?.sessions ?? [];
  const sessions = [...first, ...(found.data ?? []).filter((each) => first.every(({ id }) => id !== each.id))];
  useFollowed(sessions.slice(0, FOLLOWED), client);
  const isBare = found.isSuccess && !pinned.isPending && sessions.length === 0 && !sought && !only;
  return (
    <>
      <title>koda</title>
      <Composer />
      {!isBare && (
        <section aria-labelledby="all" className="mt-16">
          <div className="mb-5 flex flex-wrap items-center gap-3">
            <h2 id="all" className="mr-auto text-lg font-semibold tracking-tight">
              Your animations
            </h2>
            <select
              aria-label="Which"
              className="min-h-10 rounded-xl border border-line bg-panel pr-8 pl-3 text-sm"
              value={only}
              onChange={(event) => setOnly(event.target.value)}
            >
              {WHICH.map(([asked, words]) => (
                <option key={asked} value={asked}>
                  {words}
                </option>
              ))}
            </select>
            <label className="relative w-full sm:w-64">
              <span className="sr-only">Search</span>
              <Search aria-hidden className="pointer-events-none absolute top-3 left-3 size-4 text-muted" />
              <input
                type="search"
                className="min-h-10 w-full rounded-xl border border-line bg-panel pr-3 pl-9 text-sm placeholder:text-muted"
                placeholder="Search"
                value={text}
                onChange={(event) => setText(event.target.value)}
              />
            </label>
          </div>
          <Said problem={found.error ?? pinned.error} />
          {found.isSuccess && sessions.length === 0 && !found.hasNextPage && (
            <p className="py-12 text-center text-muted">Nothing like that. Try fewer words.</p>
          )}
          <ul className="grid grid-cols-1 gap-5 sm:grid-cols-2 lg:grid-cols-3 xl:grid-cols-4">
            {sessions.map((each) => (
              <Card key={each.id} session={each} />
            ))}
          </ul>
          {found.hasNextPage && (
            <p className="mt-8 text-center">
              <Button onClick={() => void found.fetchNextPage()} disabled={found.isFetchingNextPage}>
                Show more
              </Button>
            </p>
          )}
        </section>
      )}
    </>
  );
}

function address(only: string, text: string, page: Record<string, string | number | null>): string {
  const asked = new URLSearchParams(only);
  if (text) asked.set('text', text);
  for (const [name, value] of Object.entries(page)) if (value !== null) asked.set(name, String(value));
  return `/v1/sessions?${asked}`;
}

function Card({ session }: { session: SessionSummary }) {
  const title = session.title ?? session.prompt;
  return (
    <li className="group/card relative">
      <Link href={`/s/${session.id}`} className="group card block overflow-hidden hover:border-line-strong">
        <div className={`grid place-items-center bg-sunken ${session.thumbnailUrl ? 'aspect-video' : 'aspect-[4/1] sm:aspect-video'}`}>
          {session.thumbnailUrl ? (
            <img src={session.thumbnailUrl} alt="" loading="lazy" className="size-full object-contain" />
          ) : (
            <Film aria-hidden className="size-7 text-muted opacity-50" />
          )}
        </div>
        <div className="space-y-1.5 p-4">
          <p className="line-clamp-2 min-h-10 text-sm leading-5 font-medium">{title}</p>
          <p className="flex items-center justify-between text-sm text-muted">
            <span className="flex min-w-0 items-center gap-3">
              <Phase state={session} />
              {session.take && <span className="shrink-0">Take {session.take}</span>}
            </span>
            {session.todos > 0 && session.phase === 'executing' ? (
              <span className="tabular-nums">
                {session.todosDone} of {session.todos}
              </span>
            ) : session.duration ? (
              <span className="tabular-nums">{seconds(session.duration)}</span>
            ) : null}
          </p>
        </div>
      </Link>
      <PinButton
        session={session}
        label={`Pin ${title}`}
        className={`absolute top-2 right-2 size-8 bg-panel/85 transition-opacity motion-reduce:transition-none ${session.pinned ? '' : 'opacity-0 group-hover/card:opacity-100 focus-visible:opacity-100 pointer-coarse:opacity-100'}`}
      />
    </li>
  );
}

function seconds(value: number): string {
  return `${Number(value.toFixed(1))} s`;
}
