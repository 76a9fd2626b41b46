import { useQueryClient } from '@tanstack/react-query';
import { Columns2, Film, Pause, Play } from 'lucide-react';
import { useEffect, useMemo, useRef, useState, useSyncExternalStore } from 'react';
import { Link } from 'wouter';
import { Chorus } from '../api/chorus';
import { command, Problem, type SessionSummary } from '../api/client';
import { isKept, useFollowed, useGroup } from '../api/hooks';
import { useTold } from '../api/told';
import { Button } from '../parts/button';
import { useRefocus, useReturn } from '../parts/focus';
import { Phase } from '../parts/phase';
import { Said } from '../parts/said';
import { Missing } from './missing';

/** Several takes of one prompt beside each other: made together, seen together, and one of them goes on. */
export function Takes({ group }: { group: string }) {
  const client = useQueryClient();
  const found = useGroup(group);
  const takes = (found.data?.sessions ?? []).toReversed();
  useFollowed(takes, client);
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem>();
  const list = useRef<HTMLUListElement>(null);
  const said = useTold(takes, isKept(found), nameOf);
  const chorus = useMemo(() => new Chorus(), []);
  const head = useRef<HTMLDivElement>(null);
  const planned = takes.filter(({ phase, owes, approval }) => phase === 'plan' && !owes && !approval);
  useReturn(busy);
  useRefocus(planned.length > 0 ? 'planned' : 'made', head);
  const isPlaying = useSyncExternalStore(chorus.watch, () => chorus.isPlaying);
  useEffect(() => chorus.close, [chorus]);
  if (!found.data && found.error) return <Said problem={found.error} />;
  if (!found.data) return <p className="py-16 text-muted">One moment…</p>;
  const [first] = takes;
  if (!first) return <Missing what="These takes are not there any more." />;
  const seen = takes.filter(({ videoUrl }) => videoUrl);
  const [one, other] = seen;
  const make = async (which: readonly SessionSummary[]) => {
    setBusy(true);
    const answers = await Promise.allSettled(which.map((each) => command(each, 'accept')));
    const failed = answers.find((each) => each.status === 'rejected');
    setProblem(failed?.reason as Problem | undefined);
    await client.invalidateQueries({ queryKey: ['sessions'] });
    setBusy(false);
  };
  const playAll = () => chorus.play([...(list.current?.querySelectorAll('video') ?? [])]);
  return (
    <>
      <title>{`Takes · ${first.prompt.slice(0, 50)} · koda`}</title>
      <div ref={head} className="flex flex-wrap items-end gap-3 pt-2">
        <div className="mr-auto min-w-0">
          <p className="text-sm text-muted">{takes.length} takes of</p>
          <h1 className="text-xl font-semibold tracking-tight wrap-anywhere sm:text-2xl">{first.prompt}</h1>
        </div>
        {one && other && (
          <Link
            href={`/s/${one.id}/compare?a=${one.id}&b=${other.id}`}
            className="inline-flex min-h-10 items-center gap-2 rounded-xl border border-line-strong bg-panel px-4 py-2.5 hover:bg-sunken"
          >
            <Columns2 aria-hidden className="size-4" /> Compare
          </Link>
        )}
        {seen.length > 1 && (
          <Button onClick={isPlaying ? chorus.pause : playAll}>
            {isPlaying ? <Pause aria-hidden className="size-4" /> : <Play aria-hidden className="size-4" />} {isPlaying ? 'Pause all' : 'Play all'}
          </Button>
        )}
        {planned.length > 0 && (
          <Button kind="main" disabled={busy} onClick={() => void make(planned)}>
            {planned.length === 1 ? 'Make it' : `Make all ${planned.length}`}
          </Button>
        )}
      </div>
      <p role="status" className="sr-only">
        {said}
      </p>
      <div className="mt-3">
        <Said problem={problem} />
      </div>
      <ul ref={list} className={`mt-5 grid grid-cols-1 gap-5 md:grid-cols-2 ${takes.length === 3 ? 'xl:grid-cols-3' : ''}`} aria-label="Takes">
        {takes.map((each) => (
          <Take key={each.id} take={each} />
        ))}
      </ul>
    </>
  );
}

function nameOf({ title, take }: SessionSummary): string {
  return title ?? `Take ${take}`;
}

function Take({ take }: { take: SessionSummary }) {
  const name = nameOf(take);
  return (
    <li className="card overflow-hidden">
      <div className="grid aspect-video place-items-center bg-sunken">
        {take.videoUrl ? (
          <video
            key={take.videoUrl}
            src={take.videoUrl}
            poster={take.thumbnailUrl ?? undefined}
            controls
            loop
            muted
            playsInline
            preload="metadata"
            aria-label={name}
            className="size-full bg-black object-contain"
          />
        ) : (
          <Film aria-hidden className="size-8 text-muted opacity-50" />
        )}
      </div>
      <div className="flex flex-wrap items-center gap-x-4 gap-y-2 p-4">
        <div className="mr-auto">
          <h2 className="font-medium">{name}</h2>
          <Phase state={take} />
        </div>
        {take.todos > 0 && take.phase === 'executing' && (
          <span className="text-sm text-muted tabular-nums">
            {take.todosDone} of {take.todos}
          </span>
        )}
        <Link
          href={`/s/${take.id}`}
          className="inline-flex min-h-10 items-center rounded-xl border border-line-strong px-4 py-2 hover:bg-sunken"
        >
          Go on with {name}
        </Link>
      </div>
    </li>
  );
}
