import { useQueryClient } from '@tanstack/react-query';
import { Columns2, Pause, Play, Square } from 'lucide-react';
import { useEffect, useMemo, useRef, useState, useSyncExternalStore } from 'react';
import { Link } from 'wouter';
import { useAct } from '../api/acts';
import { Chorus } from '../api/chorus';
import { ask, command, type Problem, type Schemas, type SessionSummary } from '../api/client';
import { groupPath, isKept, useFollowed, useGroup } from '../api/hooks';
import { type Asked, isBeingMade, type Stopped, stopped, stopWords } from '../api/takes';
import { useTold } from '../api/told';
import { Button } from '../parts/button';
import { useDraft } from '../parts/draft';
import { useRefocus, useReturn } from '../parts/focus';
import { Said } from '../parts/said';
import { Sure } from '../parts/sure';
import { Take } from '../parts/take';
import { Missing } from './missing';

/** Several takes of one prompt beside each other: made together, seen together, and one of them goes on. */
export function Takes({ group }: { group: string }) {
  const client = useQueryClient();
  const found = useGroup(group);
  const takes = (found.data?.sessions ?? []).toReversed();
  useFollowed(takes, client);
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem>();
  const [live, setLive] = useState<string>();
  const list = useRef<HTMLUListElement>(null);
  const said = useTold(takes, isKept(found), nameOf);
  const chorus = useMemo(() => new Chorus(), []);
  const head = useRef<HTMLDivElement>(null);
  const planned = takes.filter(({ phase, owes, approval }) => phase === 'plan' && !owes && !approval);
  const stopping = useStopping(group, takes.filter(isBeingMade));
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
  const playAll = () => chorus.play([...(list.current?.querySelectorAll<HTMLVideoElement>('video[controls]') ?? [])]);
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
        {stopping.button}
        {planned.length > 0 && (
          <Button kind="main" disabled={busy} onClick={() => void make(planned)}>
            {planned.length === 1 && planned[0] ? `Make ${nameOf(planned[0])}` : `Make all ${planned.length}`}
          </Button>
        )}
      </div>
      <p role="status" className="sr-only">
        {said}
      </p>
      <div className="mt-3 space-y-3">
        {stopping.below}
        <Said problem={problem} />
      </div>
      <ul ref={list} className={`mt-5 grid grid-cols-1 gap-5 md:grid-cols-2 ${takes.length === 3 ? 'xl:grid-cols-3' : ''}`} aria-label="Takes">
        {takes.map((each) => (
          <Take key={each.id} take={each} name={nameOf(each)} isLive={live === each.id} goLive={(isLive) => setLive(isLive ? each.id : undefined)} />
        ))}
      </ul>
    </>
  );
}

function nameOf({ title, take }: SessionSummary): string {
  return title ?? `Take ${take}`;
}

/** What stops all that are still being made, where somebody says so twice; and what came of that. */
function useStopping(group: string, made: readonly SessionSummary[]) {
  const client = useQueryClient();
  const [asked, setAsked, opener] = useDraft();
  const [busy, setBusy] = useState(false);
  const [done, setDone] = useState<Stopped>();
  const words = useRef<HTMLParagraphElement>(null);
  const leave = () => setAsked(undefined);
  const isAsking = asked !== undefined && (busy || made.length > 0);
  const canAsk = made.length > 1 && !isAsking;
  useAct(canAsk && 'Stop all', () => setAsked(''));
  useEffect(() => {
    if (asked !== undefined && made.length === 0 && !busy) leave(); // there is nothing left to be sure of
  }, [asked, made.length, busy]);
  const before = useRef(made.length);
  useEffect(() => {
    if (made.length > before.current) setDone(undefined); // something is made anew
    before.current = made.length;
  }, [made.length]);
  const stop = async () => {
    setBusy(true);
    setDone(undefined);
    const answers = await Promise.all(made.map(stopOf));
    const read = await ask<Schemas['SessionPage']>(groupPath(group)).catch(() => undefined);
    if (read) client.setQueryData(['sessions', 'group', group], read);
    setDone(stopped(answers, read && new Set(read.sessions.filter(isBeingMade).map(({ id }) => id))));
    void client.invalidateQueries({ queryKey: ['sessions'] });
    for (const { id } of answers) void client.invalidateQueries({ queryKey: ['session', id] });
    setBusy(false);
    leave();
    requestAnimationFrame(() => words.current?.focus({ preventScroll: true })); // what was pressed is gone
  };
  const button = canAsk && (
    <Button ref={opener} onClick={() => setAsked('')} title="What is there is kept">
      <Square aria-hidden className="size-3.5" /> Stop all {made.length}
    </Button>
  );
  const names = made.map(nameOf).join(', ');
  const below = (
    <>
      {isAsking && (
        <Sure label="Stop all" yes={busy ? 'Stopping…' : made.length > 1 ? `Stop all ${made.length}` : 'Stop it'} no="Let them go on" problem={null} busy={busy} act={() => void stop()} leave={leave}>
          {`${names}: what is there of each is kept, and each can be made again from there.`}
        </Sure>
      )}
      <p ref={words} role="status" tabIndex={-1} className={done ? `rounded-xl px-3.5 py-2.5 text-sm ${done.isBad ? 'bg-bad-ground text-bad' : 'bg-sunken'}` : 'sr-only'}>
        {done && stopWords(done)}
      </p>
    </>
  );
  return { button, below };
}

async function stopOf(take: SessionSummary): Promise<Asked> {
  const of = { id: take.id, name: nameOf(take) };
  try {
    return { ...of, answer: (await command(take, 'cancel')) as NonNullable<Asked['answer']> };
  } catch (problem) {
    return { ...of, problem };
  }
}
