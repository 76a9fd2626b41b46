import { useMutation, useQueryClient } from '@tanstack/react-query';
import { Check, ChevronDown, CircleDashed, Film as FilmSign, MonitorPlay, Radio, RotateCcw, Square } from 'lucide-react';
import { type CSSProperties, useId, useRef } from 'react';
import { Link } from 'wouter';
import { doingWords, farWords } from '../../node/src/session';
import { clockWords, useSeconds } from '../../node/src/since';
import { command, type CommandName, Problem, type Schemas, type SessionSummary, type SessionView } from '../api/client';
import { useWatching, watchable } from '../api/footage';
import { type Progress, useSession } from '../api/hooks';
import { useStill } from '../api/reach';
import { Places, usePlace } from '../api/takes';
import { fileName, seconds } from '../api/words';
import { heading, kept, sentence, stoppedWords, useLong } from '../api/working';
import type { Sent } from '../screens/session';
import { Approval } from './approval';
import { Bar } from './bar';
import { Button } from './button';
import { useRefocus, useReturn } from './focus';
import { Footage } from './footage';
import { Live } from './live';
import { Phase } from './phase';
import { Question } from './question';
import { Said } from './said';
import { Steps } from './steps';
import { Storyboard } from './storyboard';
import { answering, shownOf } from './turned';

/** A video that is watched as it is rendered takes a connection, of which a browser has six to a server. */
const watched = new Places(2);
const ACT = 'min-h-9 px-3 py-1.5 text-sm';
const SWITCH = 'min-h-9 px-2.5';
const WATCH = 'Watch it as it is rendered';
const LIVE = 'See it live';
const LEAVE = 'Leave the live page';

interface Props {
  take: SessionSummary;
  name: string;
  /** Whether its page is seen live, which one take's is at most, and what has it be. */
  isLive: boolean;
  goLive: (isLive: boolean) => void;
}

/** One take beside the others: what there is to see of it, what is done or asked for just now, and the way to its studio. */
export function Take({ take, name, isLive, goLive }: Props) {
  const { id } = take;
  const { data: session, error, progress, thinking } = useSession(id);
  const client = useQueryClient();
  const sending = useMutation<unknown, Problem, { at: SessionView; name: CommandName; body?: object }>({
    mutationFn: ({ at, name: what, body }) => command(at, what, body),
    onSettled: () => Promise.all([['session', id], ['sessions']].map((queryKey) => client.invalidateQueries({ queryKey }))),
  });
  const notDone = useStill(sending.error);
  const refused = notDone && sending.variables ? { name: sending.variables.name, problem: notDone } : undefined;
  const card = useRef<HTMLLIElement>(null);
  const [heads, said] = [useId(), useId()];
  useReturn(sending.isPending);
  useRefocus(session ? shownOf(session.state) : 'none', card);
  const send: Sent['send'] = async (what, body) => {
    if (!session || sending.isPending) return false;
    return sending.mutateAsync({ at: session, name: what, ...(body ? { body } : {}) }).then(
      () => true,
      () => false,
    );
  };
  const seen = useSeen({ take, session, name, progress, isLive, goLive });
  const sent: Sent = { send, busy: sending.isPending, refused };
  return (
    <li ref={card} className="card flex min-w-0 flex-col overflow-hidden" aria-labelledby={heads}>
      {seen.picture}
      <div className="flex flex-1 flex-col gap-4 p-4">
        <div className="flex flex-wrap items-center gap-x-4 gap-y-2">
          <div className="mr-auto">
            <h2 id={heads} className="font-medium">
              {name}
            </h2>
            <Phase state={session?.state ?? take} />
          </div>
          <Link href={`/s/${id}`} className="inline-flex min-h-10 items-center rounded-xl border border-line-strong px-4 py-2 hover:bg-sunken">
            Go on with {name}
          </Link>
        </div>
        {session && <Now session={session} name={name} progress={progress} thinking={thinking} said={said} {...sent} />}
        {!session && <Said problem={error} />}
        <Said problem={refused?.problem} id={said} except={refused && answering(refused)} />
        {seen.switches}
      </div>
    </li>
  );
}

interface SeenProps extends Props {
  session: SessionView | undefined;
  progress: Progress | undefined;
}

/** Its video, the video as it is rendered, its page, or what is planned: whichever there is by now; and what leads to another of these. */
function useSeen({ take, session, name, progress, isLive, goLive }: SeenProps) {
  const state = session?.state;
  const scenes = state?.plan?.scenes ?? [];
  const nothingYet = state?.phase === 'executing' && !take.videoUrl;
  const mayWatch = usePlace(watched, take.id, nothingYet && watchable(progress) !== undefined);
  const standing = (state?.preview ?? state?.finished)?.jobId ?? undefined;
  const watching = useWatching(progress, { byItself: nothingYet && mayWatch && !isLive, standing, works: Boolean(state?.owes) });
  const canBeLive = state?.phase === 'executing' && Boolean(state.execution?.files.length);
  const wide = state?.plan ? state.plan.width / state.plan.height : ratio(state?.options.aspect);
  const isOld = Boolean(take.videoUrl) && state?.phase === 'executing';
  const lives = isLive && canBeLive;
  const offersToWatch = watching.offers && mayWatch && !lives;
  const picture = (
    <div className="relative">
      <div className={`@container grid place-items-center bg-sunken ${lives ? 'p-2 max-sm:px-0' : 'aspect-video'}`} style={{ '--tall': '56.25cqw' } as CSSProperties}>
        {lives ? (
          <div className="w-full">
            <Live sessionId={take.id} name={fileName(take.title ?? take.prompt)} wide={wide} scenes={scenes} tools={null} leave={() => goLive(false)} />
          </div>
        ) : watching.jobId ? (
          <div className="w-full">
            <Footage key={watching.jobId} jobId={watching.jobId} label={`${name} as it is rendered`} of={name} wide={wide} end={watching.end} leave={watching.leave} />
          </div>
        ) : take.videoUrl ? (
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
        ) : scenes.length > 0 ? (
          <div className="w-full">
            <Storyboard scenes={scenes} todos={state?.execution?.todos ?? []} wide={wide} />
          </div>
        ) : (
          <FilmSign aria-hidden className={`size-8 text-muted opacity-50 ${take.owes ? 'breathing' : ''}`} />
        )}
      </div>
      {isOld && !lives && !watching.jobId && (
        <p className="pointer-events-none absolute top-2 left-2 max-w-[calc(100%-1rem)] rounded-lg bg-panel px-2.5 py-1 text-sm">As it was before; a new one is being made</p>
      )}
    </div>
  );
  const switches = (canBeLive || offersToWatch) && (
    <div className="-mx-2.5 mt-auto -mb-2 flex flex-wrap">
      {offersToWatch && (
        <Button kind="quiet" className={SWITCH} onClick={watching.begin} aria-label={`${WATCH}: ${name}`}>
          <MonitorPlay aria-hidden className="size-4" /> {WATCH}
        </Button>
      )}
      {canBeLive && (
        <Button kind="quiet" className={SWITCH} title={lives ? undefined : 'The page itself, as it is now'} onClick={() => goLive(!lives)} aria-label={`${lives ? LEAVE : LIVE}: ${name}`}>
          {lives ? <FilmSign aria-hidden className="size-4" /> : <Radio aria-hidden className="size-4" />} {lives ? LEAVE : LIVE}
        </Button>
      )}
    </div>
  );
  return { picture, switches };
}

interface NowProps extends Sent {
  session: SessionView;
  name: string;
  progress: Progress | undefined;
  thinking: string;
  /** What names the answer to what was refused. */
  said: string;
}

/** What is being done for it, or what it waits for. */
function Now(props: NowProps) {
  const { session, name, said, ...sent } = props;
  const { state } = session;
  if (state.owes) return <Making key={state.owes} {...props} />;
  if (state.approval) return <Approval key={state.approval.approvalId} session={session} call={state.approval} said={said} className="border-t border-line pt-4" {...sent} />;
  if (state.phase === 'question' && state.question) return <Question key={state.question.text} session={session} said={said} className="border-t border-line pt-4" {...sent} />;
  if (state.phase === 'error' && state.error) return <Failure {...props} />;
  return (
    <>
      {state.stopped && <p className="rounded-xl bg-sunken px-3.5 py-2.5 text-sm">{stoppedWords(session)}</p>}
      {state.phase === 'plan' && state.plan && (
        <div className="space-y-2.5">
          <p className="text-sm text-muted">
            {state.plan.style} · {seconds(state.plan.totalDuration)} · {state.plan.scenes.length === 1 ? '1 scene' : `${state.plan.scenes.length} scenes`}
          </p>
          <div className="flex flex-wrap gap-2">
            <Button className={ACT} onClick={() => void sent.send('accept')} disabled={sent.busy} aria-label={`Make this: ${name}`}>
              Make this
            </Button>
            <Button kind="quiet" className="min-h-9 py-1.5" onClick={() => void sent.send('reject')} disabled={sent.busy} aria-label={`Ask me again: ${name}`}>
              Ask me again
            </Button>
          </div>
        </div>
      )}
    </>
  );
}

function Making({ session, name, progress, thinking, send, busy }: NowProps) {
  const { state } = session;
  const todos = state.execution?.todos ?? [];
  const since = useSeconds(state.owedSince ?? session.createdAt);
  const isLong = useLong(thinking, since);
  const isRendering = progress !== undefined && progress.percent < 100;
  return (
    <div className="space-y-3 text-sm">
      <div className="flex items-center gap-3">
        <p className="mr-auto min-w-0 text-muted">
          {isRendering ? (
            state.owes === 'render_final' ? 'Rendering the video' : 'Rendering the preview'
          ) : (
            <>
              {thinking ? (isLong ? sentence(thinking) : thinking) : !isLong && `${heading(state.owes)}…`} {isLong && <span className="inline-block">Still at it.</span>}
            </>
          )}
        </p>
        <span className="text-muted tabular-nums">{clockWords(since)}</span>
        <Button className={`-my-1 shrink-0 ${ACT}`} onClick={() => void send('cancel')} disabled={busy} title="What is there is kept" aria-label={`Stop ${name}`}>
          <Square aria-hidden className="size-3.5" /> Stop
        </Button>
      </div>
      {isRendering && (
        <div className="space-y-2">
          <Bar label={`Rendering ${name}`} percent={progress.percent} glides />
          <p className="flex flex-wrap justify-between gap-x-3 text-muted tabular-nums">
            <span>{farWords(progress)}</span>
            <span>{doingWords(progress)}</span>
          </p>
        </div>
      )}
      {todos.length > 0 && <Far todos={todos} />}
    </div>
  );
}

/** The step that is taken now, and all of them behind it. */
function Far({ todos }: { todos: readonly Schemas['Todo'][] }) {
  const done = todos.filter(({ status }) => status === 'done').length;
  const now = todos.find(({ status }) => status === 'active') ?? todos.find(({ status }) => status !== 'done');
  return (
    <details className="group">
      <summary className="flex min-h-6 cursor-pointer items-center gap-2.5 rounded-sm">
        {now ? <CircleDashed aria-hidden className="breathing size-4 shrink-0 text-accent" /> : <Check aria-hidden className="size-4 shrink-0 text-good" />}
        <span className="min-w-0 truncate">{now?.label ?? 'All steps'}</span>
        <span className="ml-auto shrink-0 text-muted tabular-nums">
          {done} of {todos.length}
        </span>
        <ChevronDown aria-hidden className="size-4 shrink-0 text-muted group-open:rotate-180" />
      </summary>
      <div className="mt-2">
        <Steps todos={todos} />
      </div>
    </details>
  );
}

function Failure({ session, name, send, busy }: NowProps) {
  const { error } = session.state;
  if (!error) return null;
  return (
    <div className="space-y-3 text-sm">
      <p role="alert" className="rounded-xl bg-bad-ground px-3.5 py-2.5 wrap-anywhere text-bad">
        {error.message}
      </p>
      <div className="flex flex-wrap items-center gap-3">
        <p className="mr-auto text-muted">{kept(session)}</p>
        {error.canRetry && (
          <Button className={ACT} onClick={() => void send('retry')} disabled={busy} aria-label={`Try again: ${name}`}>
            <RotateCcw aria-hidden className="size-4" /> Try again
          </Button>
        )}
      </div>
    </div>
  );
}

function ratio(aspect: string | null | undefined): number {
  const [wide = 16, high = 9] = (aspect ?? '16:9').split(':').map(Number);
  return wide / high;
}
