import { useQuery, useQueryClient } from '@tanstack/react-query';
import { ArrowLeft, ArrowLeftRight, Check, Columns2, Contrast, Film, FlipHorizontal2, Palette, Radio, SquareSplitHorizontal } from 'lucide-react';
import { useState } from 'react';
import { Link, useLocation } from 'wouter';
import { ask, command, Problem, type Schemas, type SessionView, type VersionView } from '../api/client';
import { finalName, isPlayed, useFinalList, useFinals } from '../api/finals';
import { useGroup, useSession } from '../api/hooks';
import { coloursOf, wordsFor } from '../api/palette';
import { useParams } from '../api/params';
import type { RenderSummary } from '../api/renders';
import { useVersionPages, useVersions } from '../api/versions';
import { AskAgain } from '../parts/ask-again';
import { type Mode, nameOf, Pages, type Pairing, type Side, Videos } from '../parts/both';
import { Button } from '../parts/button';
import { useEscape } from '../parts/escape';
import { useReturn } from '../parts/focus';
import { useKey } from '../parts/keys';
import { Said } from '../parts/said';
import { takesChanges } from '../parts/talk';
import { titleOf } from '../parts/title';
import { Missing } from './missing';

const MODES = [
  ['side', 'Side by side', Columns2],
  ['wipe', 'Wipe', SquareSplitHorizontal],
  ['flip', 'Flip', FlipHorizontal2],
  ['difference', 'Difference', Contrast],
] as const;

/** Two versions, or takes, with one clock: beside each other, one over the other, or what differs between them. */
export function Compare({ id }: { id: string }) {
  const [params, set] = useParams();
  const [a, b] = [params.get('a') ?? '', params.get('b') ?? ''];
  const mode = MODES.find(([name]) => name === params.get('mode'))?.[0] ?? 'side';
  const { data: session, error, gone } = useSession(id);
  const [, go] = useLocation();
  useEscape(() => go(`/s/${id}`));
  const found = useQuery<Pairing, Problem>({
    queryKey: ['compare', id, a, b],
    queryFn: () => ask(`/v1/sessions/${id}/compare?${new URLSearchParams({ a, b })}`),
    enabled: Boolean(a && b),
    placeholderData: (before) => before,
  });
  if (gone || error?.status === 404 || found.error?.status === 404) return <Missing what="What was to be compared is not there any more." />;
  if (!session) return error ? <Said problem={error} /> : <p className="py-16 text-muted">One moment…</p>;
  return (
    <>
      <title>{`Compare · ${titleOf(session).slice(0, 50)} · koda`}</title>
      <div className="flex flex-wrap items-center gap-x-4 gap-y-2 pt-2">
        <h1 className="mr-auto min-w-0 text-xl font-semibold tracking-tight wrap-anywhere sm:text-2xl">{titleOf(session)}</h1>
        <Link href={`/s/${id}`} title="Esc" className="inline-flex min-h-10 items-center gap-2 rounded-xl px-3 text-sm text-muted hover:bg-sunken hover:text-text">
          <ArrowLeft aria-hidden className="size-4" /> Back to the studio
        </Link>
      </div>
      <div className="mt-4 flex flex-wrap items-end gap-x-3 gap-y-3">
        <Choice name="A" session={session} chosen={a} side={found.data?.a} choose={(to) => set({ a: to })} />
        <Button kind="quiet" className="px-2.5" aria-label="The other way round" title="The other way round" onClick={() => set({ a: b, b: a })}>
          <ArrowLeftRight aria-hidden className="size-4" />
        </Button>
        <Choice name="B" session={session} chosen={b} side={found.data?.b} choose={(to) => set({ b: to })} />
        <Modes mode={mode} choose={(to) => set({ mode: to })} />
      </div>
      <Unread session={session} />
      <div className="mt-5">
        <Said problem={found.error} />
        {found.data ? (
          <Both key={`${found.data.a.videoUrl} ${found.data.b.videoUrl}`} session={session} pair={found.data} mode={mode} time={Number(params.get('t') ?? 0) || 0} keep={(t) => set({ t })} />
        ) : (
          !found.error && <p className="py-16 text-muted">{a && b ? 'One moment…' : 'Choose what to compare.'}</p>
        )}
      </div>
    </>
  );
}

/** What could not be read of what there is to choose from. */
function Unread({ session }: { session: SessionView }) {
  return (
    <>
      <AskAgain what="The versions" found={useVersionPages(session.id)} />
      <AskAgain what="The finished videos" found={useFinalList(session)} />
    </>
  );
}

function Choice({ name, session, chosen, side, choose }: { name: 'A' | 'B'; session: SessionView; chosen: string; side: Side | undefined; choose: (to: string) => void }) {
  const versions = useVersions(session.id);
  const takes = (useGroup(session.state.group).data?.sessions ?? []).filter(({ videoUrl }) => videoUrl).toReversed();
  const finals = useFinals(session).filter(({ format }) => isPlayed(format));
  const named = versions.find(({ jobId }) => jobId === chosen)?.id ?? chosen;
  const known = [...versions, ...finals, ...takes].some(({ id }) => id === named);
  return (
    <label className={`min-w-0 ${name === 'A' ? 'max-sm:w-[calc(100%-3.5rem)]' : 'max-sm:w-full'}`}>
      <span className="mb-1 block text-sm text-muted">{name}</span>
      <select className="min-h-11 w-full truncate rounded-xl border border-line-strong bg-panel pr-9 pl-3.5 sm:w-60" value={named} onChange={({ target }) => choose(target.value)}>
        {!known && <option value={named}>{side ? nameOf(side) : 'Choose…'}</option>}
        <optgroup label="Versions">
          {versions.map((each) => (
            <option key={each.id} value={each.id}>
              {`v${each.number}${each.current ? ' (shown now)' : ''}: ${(each.note || each.asked).slice(0, 60)}`}
            </option>
          ))}
        </optgroup>
        {finals.length > 0 && (
          <optgroup label="Finished videos">
            {finals.map((each) => (
              <option key={each.id} value={each.id}>
                {[numberOf(each, versions), finalName(each)].filter(Boolean).join(': ')}
              </option>
            ))}
          </optgroup>
        )}
        {takes.length > 0 && (
          <optgroup label="Takes of the same prompt">
            {takes.map((each) => (
              <option key={each.id} value={each.id}>
                {each.title ?? `Take ${each.take}`}
              </option>
            ))}
          </optgroup>
        )}
      </select>
    </label>
  );
}

function Modes({ mode, choose }: { mode: Mode; choose: (mode: Mode) => void }) {
  for (const [at, [name]] of MODES.entries()) useKey(String(at + 1), () => choose(name));
  return (
    <div role="group" aria-label="How they are compared" className="flex rounded-xl border border-line p-1 sm:ml-auto">
      {MODES.map(([name, words, Icon], at) => (
        <button
          key={name}
          type="button"
          aria-pressed={mode === name}
          title={`${words} (${at + 1})`}
          className="inline-flex min-h-8 items-center gap-2 rounded-lg px-2.5 text-sm text-muted hover:text-text aria-pressed:bg-accent-ground aria-pressed:text-accent"
          onClick={({ detail, currentTarget }) => {
            choose(name);
            if (detail > 0) currentTarget.blur(); // keys of who presses by pointer are the page's
          }}
        >
          <Icon aria-hidden className="size-4" />
          <span className="max-md:sr-only">{words}</span>
        </button>
      ))}
    </div>
  );
}

/** The picture of both, what moves it, and which of them is kept: of their videos, or of their pages. */
function Both({ session, pair, mode, time, keep }: { session: SessionView; pair: Pairing; mode: Mode; time: number; keep: (t: string) => void }) {
  const { id } = session;
  const [live, setLive] = useState(false);
  const curve = useQuery<Schemas['DifferenceCurve'], Problem>({
    queryKey: ['differences', id, pair.a.videoUrl, pair.b.videoUrl],
    queryFn: () => ask(`/v1/sessions/${id}/compare/differences?${new URLSearchParams({ a: refOf(id, pair.a), b: refOf(id, pair.b) })}`),
    staleTime: Infinity,
    retry: false,
  });
  const shown = { pair, mode, time, keep, curve: curve.data?.values, unsaid: curve.error?.message };
  return (
    <div className="space-y-3">
      {live ? <Pages {...shown} leave={() => setLive(false)} /> : <Videos {...shown} />}
      <button
        type="button"
        title={live ? 'Back to the videos' : 'Both pages as they were built; nothing is started for them'}
        className="inline-flex min-h-9 items-center gap-2 rounded-lg px-3 text-sm text-muted hover:bg-sunken hover:text-text"
        onClick={() => setLive(!live)}
      >
        {live ? <Film aria-hidden className="size-4" /> : <Radio aria-hidden className="size-4" />}
        {live ? 'Back to the videos' : 'See them live'}
      </button>
      {pair.a.duration !== pair.b.duration && (
        <p className="text-sm text-muted">
          A lasts {seconds(pair.a.duration)}, B {seconds(pair.b.duration)}: what both have is compared.
        </p>
      )}
      <div className="grid gap-4 pt-2 md:grid-cols-2">
        <Keep name="A" session={session} side={pair.a} />
        <Keep name="B" session={session} side={pair.b} />
      </div>
    </div>
  );
}

/**
 * What it is, and to go on with it: a version of this session is gone to, another session is gone on with; or what this session shows
 * takes its colours.
 */
function Keep({ name, session: { id, state }, side }: { name: 'A' | 'B'; session: SessionView; side: Side }) {
  const client = useQueryClient();
  const [, go] = useLocation();
  const [problem, setProblem] = useState<Problem>();
  const [busy, setBusy] = useState(false);
  useReturn(busy);
  const isOwn = side.sessionId === id;
  const lends = !(isOwn && side.current) && Boolean(state.preview) && takesChanges(state);
  const send = async (name: 'rewind' | 'changes', body: object) => {
    await command(await ask<SessionView>(`/v1/sessions/${id}`), name, body);
    await client.invalidateQueries({ queryKey: ['session', id] });
  };
  const goOn = async (to: string, first?: () => Promise<void>) => {
    setBusy(true);
    setProblem(undefined);
    try {
      if (first) await first();
      go(`/s/${to}`);
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      setProblem(error);
      setBusy(false);
    }
  };
  const keep = () => goOn(side.sessionId, isOwn && !side.current ? () => send('rewind', { to: side.versionId }) : undefined);
  const take = () => goOn(id, async () => send('changes', { feedback: wordsFor(await coloursOf(side), isOwn ? `version ${side.number}` : 'the other film') }));
  return (
    <section aria-label={name} className="card flex flex-wrap items-center gap-x-4 gap-y-3 p-4">
      <div className="min-w-0 flex-1 basis-48">
        <h2 className="text-sm font-semibold">
          {name}: {nameOf(side)}
        </h2>
        <p className="line-clamp-2 text-sm text-muted wrap-anywhere">{side.asked}</p>
      </div>
      <div className="ml-auto flex flex-wrap items-center justify-end gap-2">
        {lends && (
          <Button kind="quiet" disabled={busy} onClick={() => void take()} title="What is shown now is changed: it gets these colours">
            <Palette aria-hidden className="size-4" /> Take the colours of {name}
          </Button>
        )}
        <Button disabled={busy} onClick={() => void keep()} title={side.current ? 'It is what is shown now' : 'Nothing is lost: the other stays a version'}>
          <Check aria-hidden className="size-4" /> Keep {name}
        </Button>
      </div>
      <Said problem={problem} />
    </section>
  );
}

/** What a side is asked for by: its version in this session, the job of a finished video, else its session. */
function refOf(id: string, side: Side): string {
  if (side.sessionId !== id) return side.sessionId;
  return side.kind === 'final' ? side.jobId : side.versionId;
}

/** Which version a finished video is of. */
function numberOf({ bundle, videoUrl }: RenderSummary, versions: readonly VersionView[]): string {
  const found = versions.find(({ finalUrl }) => finalUrl && finalUrl === videoUrl) ?? versions.find((each) => each.bundle === bundle);
  return found ? `v${found.number}` : '';
}

function seconds(duration: number): string {
  return `${Number(duration.toFixed(2))} s`;
}
