import { useQueryClient } from '@tanstack/react-query';
import { CircleDashed, Film, ImagePlay, MonitorPlay, Radio } from 'lucide-react';
import { type CSSProperties, useEffect, useState } from 'react';
import { farWords, stageWords } from '../../node/src/session';
import { useAct } from '../api/acts';
import type { Schemas, SessionView, VersionView } from '../api/client';
import { formOf, isPlayed } from '../api/finals';
import { useWatching } from '../api/footage';
import type { Progress } from '../api/hooks';
import { wantsRest } from '../api/motion';
import { putPlace, readPlace } from '../api/place';
import type { Scene } from '../api/scenes';
import { fileName } from '../api/words';
import { Film as Video } from './film';
import { carry, useCounterpart } from './focus';
import { Footage } from './footage';
import { Gif } from './gif';
import { Live, LIVE, Played } from './live';
import { Storyboard } from './storyboard';
import { titleOf } from './title';

/** What is over at once is not switched to. */
const SOON_MS = 1500;
const WATCH = 'Watch it as it is rendered';
const SWITCHED = 'inline-flex min-h-9 items-center gap-2 rounded-lg px-2.5 text-sm whitespace-nowrap text-muted hover:bg-sunken hover:text-text';

interface Props {
  session: SessionView;
  progress: Progress | undefined;
  thinking: string;
  /** An older version that is looked at in place of what there is. */
  version?: VersionView | undefined;
  versions: readonly VersionView[];
  /** The plan's scenes as somebody is editing them. */
  edited: readonly Scene[] | undefined;
  /** The job whose video is not there, though its session says so, and who is told that. */
  gone: string;
  setGone: (jobId: string) => void;
}

/** What there is to see: the live page where somebody asks for it, else the final video, the preview, or the plan as a storyboard. */
export function Stage({ session, progress, thinking, version, versions, edited, gone, setGone }: Props) {
  const { state } = session;
  const client = useQueryClient();
  const lose = (jobId: string | null | undefined) => {
    setGone(jobId ?? '');
    // it was deleted elsewhere, which no event tells
    for (const queryKey of [['session', session.id], ['finals', session.id]]) void client.invalidateQueries({ queryKey });
  };
  const [wantsLive, setWantsLive] = useState(() => readPlace(window.location.search).panel === 'live');
  const [wasChosen, setChosen] = useState(wantsLive);
  const [wasAlone, setWasAlone] = useState(false);
  const [byFrames, setByFrames] = useState(false);
  const wantLive = (wants: boolean, isAlone = false) => {
    setChosen(true);
    setWantsLive(wants);
    setWasAlone(isAlone);
    putPlace({ panel: wants ? 'live' : undefined });
  };
  const canBeLive = ['executing', 'preview'].includes(state.phase) && Boolean(state.execution?.files.length);
  const made = state.output?.videoUrl ? state.output : undefined;
  const form = formOf(state);
  const final = isPlayed(form.format) ? made : undefined;
  const shown = final ?? state.preview ?? state.finished ?? undefined;
  const nothingYet = state.phase === 'executing' && !shown?.jobId && !version && !wasChosen;
  const [isByItself, setByItself] = useByItself(canBeLive && nothingYet);
  const watching = useWatching(progress, { byItself: nothingYet, standing: shown?.jobId ?? undefined, works: Boolean(state.owes) });
  const watched = wantsLive && canBeLive ? undefined : watching.jobId;
  const isLive = (wantsLive || isByItself) && canBeLive && !watched;
  useEffect(() => setWasAlone(false), [state.phase, shown?.jobId]);
  const gif = made && form.format === 'gif' && gone !== made.jobId ? made : undefined;
  useEffect(() => setByFrames(false), [gif?.jobId]);
  const wide = state.plan ? state.plan.width / state.plan.height : ratio(state.options.aspect);
  const scenes = state.plan?.scenes ?? [];
  const todos = state.execution?.todos ?? [];
  const isOld = Boolean(shown) && !made && state.phase === 'executing';
  const current = versions.find((each) => each.current);
  const now = current?.number;
  const next = Math.max(0, ...versions.map(({ number }) => number)) + 1;
  const back = shown?.jobId ? 'Back to the video' : 'Back to the scenes';
  useAct(canBeLive && !version && (isLive ? back : 'See it live'), () => wantLive(!isLive));
  useAct(watching.offers && !version && WATCH, watching.begin);
  if (version) return <Older key={version.id} session={session} version={version} now={now} wide={wide} />;
  const live = canBeLive && <Switch plays={isLive} back={back} title="The page itself, as it is now; it wakes the session" toggle={() => wantLive(!isLive)} />;
  const isThere = shown?.jobId !== undefined && shown.jobId !== null && gone !== shown.jobId;
  const isPinned = Boolean(state.owes) && todos.length > 0;
  const board = <Storyboard scenes={edited ?? scenes} todos={todos} wide={wide} />;
  const isTold = wasAlone && !isLive;
  const isOutside = live && !isLive && !isThere;
  const aside = !made || gone === made.jobId
    ? 'the finished video was deleted.'
    : gif
      ? byFrames && 'the gif itself has no frames to go through here.'
      : `a ${form.format} is to be downloaded, since browsers do not play it here.`;
  return (
    <figure className="space-y-2">
      {watched ? (
        <Footage key={watched} jobId={watched} label="The video as it is rendered" wide={wide} end={watching.end} leave={watching.leave} />
      ) : isLive ? (
        <Live
          sessionId={session.id}
          name={fileName(titleOf(session))}
          wide={wide}
          scenes={scenes}
          tools={live}
          instead={isByItself && !wantsLive ? board : undefined}
          leave={(isAlone) => (isByItself && !isAlone && document.hidden ? setByItself(false) : wantLive(false, isAlone))}
        />
      ) : gif && !byFrames ? (
        <Gif
          key={gif.jobId}
          src={`/v1/sessions/${session.id}/video?job=${gif.jobId}&here=true`}
          still={`/v1/sessions/${session.id}/thumbnail?job=${gif.jobId}`}
          wide={wide}
          gone={() => lose(gif.jobId)}
        />
      ) : isThere ? (
        <Video
          key={shown.jobId}
          src={`/v1/sessions/${session.id}/video?job=${shown.jobId}`}
          poster={`/v1/sessions/${session.id}/thumbnail?job=${shown.jobId}`}
          label={final ? 'The finished video' : 'The preview'}
          name={fileName(titleOf(session))}
          duration={shown.duration ?? state.plan?.totalDuration ?? 0}
          fps={(final ? form.fps : undefined) ?? state.plan?.fps ?? 60}
          scenes={current?.scenes?.length ? current.scenes : scenes}
          wide={wide}
          sprites={spritesOf(session.id, state.preview?.jobId, shown.jobId)}
          stale={isOld ? (now ? `v${now} — v${next} is being made` : 'As it was before; a new one is being made') : undefined}
          otherwise="or render it in another format"
          tools={live}
          gone={() => lose(shown.jobId)}
        />
      ) : made && !final ? (
        <div className="picture bg-sunken" style={{ '--wide': wide } as CSSProperties}>
          <img src={`/v1/sessions/${session.id}/thumbnail?job=${made.jobId}`} alt="A frame of the finished video" className="size-full object-contain" />
        </div>
      ) : scenes.length > 0 && !shown?.jobId ? (
        board
      ) : (
        <div className="picture bg-sunken" style={{ '--wide': wide } as CSSProperties}>
          <p className="max-w-sm px-8 py-10 text-center text-balance text-muted">
            {shown?.jobId
              ? 'This video is not there any more. Render it again, or say what to change.'
              : state.phase === 'error'
                ? 'There was nothing to see yet when this stopped.'
                : (state.owes && thinking) || 'The picture comes here as soon as there is one.'}
          </p>
        </div>
      )}
      <p role="status" className={isTold ? 'text-sm text-muted' : 'sr-only'}>
        {isTold && 'Nobody was here for half an hour: the live page was left, so that its session may sleep.'}
      </p>
      {!final && !isLive && state.phase === 'complete' && (
        <div className="flex flex-wrap items-center justify-between gap-x-3">
          <p className="text-sm text-muted">{aside && (isThere ? `This is the preview: ${aside}` : capital(aside))}</p>
          {gif && isThere && (
            <button
              type="button"
              title={byFrames ? 'The gif itself' : 'The preview, frame by frame'}
              className={SWITCHED}
              onClick={() => setByFrames(!byFrames)}
            >
              {byFrames ? <ImagePlay aria-hidden className="size-4" /> : <Film aria-hidden className="size-4" />}
              {byFrames ? 'Back to the gif' : 'Frame by frame'}
            </button>
          )}
        </div>
      )}
      {progress && progress.percent < 100 && (
        <div className="h-1 overflow-hidden rounded-full bg-line" aria-hidden>
          <div className="h-full bg-accent transition-[width] motion-reduce:transition-none" style={{ width: `${progress.percent}%` }} />
        </div>
      )}
      {(watched || watching.offers) && (
        <div className="flex justify-end">
          <button type="button" className={SWITCHED} onClick={watched ? watching.leave : watching.begin}>
            {watched ? <Film aria-hidden className="size-4" /> : <MonitorPlay aria-hidden className="size-4" />}
            {watched ? (isThere ? 'Back to the preview' : 'Back to the scenes') : WATCH}
          </button>
        </div>
      )}
      {(isPinned || isOutside) && (
        <div className={`flex min-h-6 items-center justify-between gap-3 ${isOutside ? '' : 'lg:hidden'}`}>
          {isPinned ? <Pinned todos={todos} progress={progress} /> : <span />}
          {isOutside && live}
        </div>
      )}
    </figure>
  );
}

/** Whether the live page is shown without anybody asking, where there is nothing else to see yet; not where nothing is to move by itself. */
function useByItself(isWanted: boolean): [boolean, (shows: boolean) => void] {
  const [shows, setShows] = useState(false);
  useEffect(() => {
    if (!isWanted) return;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const look = () => {
      clearTimeout(timer);
      if (!document.hidden && !wantsRest()) timer = setTimeout(() => setShows(true), SOON_MS);
    };
    look();
    document.addEventListener('visibilitychange', look);
    return () => {
      clearTimeout(timer);
      document.removeEventListener('visibilitychange', look);
      setShows(false);
    };
  }, [isWanted]);
  return [shows && isWanted, setShows];
}

/** How far the work is, in a line that stays in view with the picture where the list of steps does not. */
function Pinned({ todos, progress }: { todos: readonly Schemas['Todo'][]; progress: Progress | undefined }) {
  const isRendering = progress !== undefined && progress.percent < 100;
  const done = todos.filter(({ status }) => status === 'done').length;
  const now = todos.find(({ status }) => status === 'active') ?? todos.find(({ status }) => status !== 'done');
  return (
    <p className="flex min-w-0 flex-1 items-center gap-2.5 text-sm lg:invisible">
      <CircleDashed aria-hidden className="breathing size-4 shrink-0 text-accent" />
      <span className="min-w-0 truncate">{isRendering ? stageWords(progress.stage) : (now?.label ?? 'Nearly there')}</span>
      <span className="shrink-0 text-muted tabular-nums">{isRendering ? farWords(progress) : `${done} of ${todos.length}`}</span>
    </p>
  );
}

/** An older version: its video, or the page that it was. */
function Older({ session, version, now, wide }: { session: SessionView; version: VersionView; now: number | undefined; wide: number }) {
  const [gone, setGone] = useState(false);
  const [plays, setPlays] = useState(false);
  const [refused, setRefused] = useState(false);
  const name = `${fileName(titleOf(session))}-v${version.number}`;
  const label = `Version ${version.number}${now ? ` — version ${now} is the current one` : ''}`;
  const page = <Switch plays={plays} title="The page as it was built then; nothing is started for it" toggle={() => setPlays(!plays)} />;
  return (
    <figure className="space-y-2">
      {plays ? (
        <Played sessionId={session.id} versionId={version.id} videoUrl={version.videoUrl} name={name} label={label} wide={wide} scenes={version.scenes ?? []} tools={page} leave={() => setPlays(false)} />
      ) : gone ? (
        <div className="picture bg-sunken" style={{ '--wide': wide } as CSSProperties}>
          <p className="max-w-sm px-8 py-10 text-center text-balance text-muted">The video of this version is not there any more. Go back to it to render it again.</p>
        </div>
      ) : (
        <Video
          src={(!refused && version.finalUrl) || version.videoUrl}
          sprites={spritesOf(session.id, version.jobId)}
          refused={version.finalUrl && !refused ? () => setRefused(true) : undefined}
          otherwise="or see it live"
          poster={version.thumbnailUrl}
          label={`Version ${version.number}`}
          shows={label}
          name={name}
          duration={version.duration}
          fps={session.state.plan?.fps ?? 60}
          scenes={version.scenes ?? []}
          wide={wide}
          tools={page}
          gone={() => setGone(true)}
        />
      )}
      {gone && !plays && <div className="flex justify-end">{page}</div>}
    </figure>
  );
}

/** Between a video and the page that it is of. */
function Switch({ plays, title, toggle, back = 'Back to the video' }: { plays: boolean; title: string; toggle: () => void; back?: string }) {
  const own = useCounterpart(LIVE);
  return (
    <button
      ref={own}
      type="button"
      title={plays ? back : title}
      className={SWITCHED}
      onClick={(event) => {
        carry(LIVE, event);
        toggle();
      }}
    >
      {plays ? <Film aria-hidden className="size-4" /> : <Radio aria-hidden className="size-4" />}
      <span className={plays ? '@max-[60rem]:sr-only' : '@max-[52rem]:sr-only'}>{plays ? back : 'See it live'}</span>
    </button>
  );
}

/** Where small frames of a film are, the preview's first: they take less to be made, but a preview is not kept for ever. */
function spritesOf(sessionId: string, ...jobIds: readonly (string | null | undefined)[]): string[] {
  return [...new Set(jobIds)].flatMap((jobId) => (jobId ? [`/v1/sessions/${sessionId}/jobs/${jobId}/sprite.jpg`] : []));
}

function capital(words: string): string {
  return words.charAt(0).toUpperCase() + words.slice(1);
}

function ratio(aspect: string | null | undefined): number {
  const [wide = 16, high = 9] = (aspect ?? '16:9').split(':').map(Number);
  return wide / high;
}
