import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Download } from 'lucide-react';
import { type CSSProperties, type FormEvent, type KeyboardEvent, useMemo, useRef, useState, useSyncExternalStore } from 'react';
import { useSearchParams } from 'wouter';
import { Attempt } from '../api/attempt';
import { ask, Problem, type Schemas } from '../api/client';
import { moment } from '../api/dates';
import { isPlayed } from '../api/finals';
import { wantsRest } from '../api/motion';
import { Reel } from '../api/reel';
import { frameAt, timecode } from '../api/timecode';
import { fileName, seconds } from '../api/words';
import { Away } from '../parts/away';
import { Button } from '../parts/button';
import { Field, useAnswered, useFirstWrong } from '../parts/field';
import { Film } from '../parts/film';
import { Keys } from '../parts/keys';
import { Remark } from '../parts/remark';
import { Said } from '../parts/said';

type SharedVideo = Schemas['SharedVideo'];
type ShareCommentView = Schemas['ShareCommentView'];

const NAMED = 'koda.name';
const UNTITLED = 'An animation';
const FIELDS = ['text', 'name'];
const USUAL_FPS = 30;

function useShared(token: string) {
  return useQuery<SharedVideo, Problem>({
    queryKey: ['shared', token],
    queryFn: () => ask(shared(token), { credentials: 'omit' }), // the link is the key, whoever looks
    retry: (count, { status }) => status === 0 && count < 3,
    refetchOnWindowFocus: false,
  });
}

/** One video, for whoever has its link. */
export function Watch({ token }: { token: string }) {
  const { data: video, error, refetch } = useShared(token);
  return (
    <div className="mx-auto flex min-h-dvh max-w-[90rem] flex-col px-4 sm:px-6 lg:px-10">
      <header className="flex h-16 items-center gap-2 text-lg font-semibold tracking-tight">
        <img src="/koda.svg" alt="" className="size-6" /> koda
        <span className="flex-1" />
        <Keys />
      </header>
      <Away isSilent={false} />
      <main id="main" className="flex-1 pb-16">
        {video ? (
          <Watched token={token} video={video} isGone={error?.status === 404} />
        ) : error ? (
          <Nothing problem={error} again={refetch} />
        ) : (
          <p className="py-16 text-muted">One moment…</p>
        )}
      </main>
    </div>
  );
}

/** The video alone, for a frame in another page: again and again where its address has `loop`, by itself and muted where it has `autoplay`. */
export function Embed({ token }: { token: string }) {
  const [asked] = useSearchParams();
  const [plays] = useState(() => asked.has('autoplay') && !wantsRest());
  const { data: video, error, refetch } = useShared(token);
  if (!video || error?.status === 404) return <main>{error ? <Nothing problem={error} again={refetch} /> : <p className="sr-only">One moment…</p>}</main>;
  const title = video.title ?? UNTITLED;
  return (
    <main className="h-dvh bg-black">
      <title>{`${title} · koda`}</title>
      <h1 className="sr-only">{title}</h1>
      {isPlayed(video.format) ? (
        <video
          src={video.videoUrl}
          poster={video.thumbnailUrl}
          controls
          playsInline
          preload="metadata"
          loop={asked.has('loop')}
          autoPlay={plays}
          muted={plays}
          aria-label={title}
          className="size-full object-contain"
        />
      ) : (
        <img src={pictureOf(video)} alt={title} className="size-full object-contain" />
      )}
    </main>
  );
}

function Nothing({ problem, again }: { problem: Problem; again: () => void }) {
  const isGone = problem.status === 404;
  return (
    <div className="mx-auto max-w-md px-4 py-24 text-center">
      <title>{`${isGone ? 'Nothing to see' : 'Not just now'} · koda`}</title>
      <h1 className="text-2xl font-semibold tracking-tight">{isGone ? 'There is nothing to see here' : 'This does not work just now'}</h1>
      <p role="alert" className="mt-3 text-muted">
        {isGone
          ? 'The link was revoked, it has ended, or part of it is missing. Whoever sent it to you can make another one.'
          : problem.status === 0
            ? 'The server does not answer.'
            : problem.message}
      </p>
      {!isGone && (
        <Button kind="main" className="mt-6" onClick={again}>
          Try again
        </Button>
      )}
    </div>
  );
}

function Watched({ token, video, isGone }: { token: string; video: SharedVideo; isGone: boolean }) {
  const client = useQueryClient();
  const { title, duration, width, height, comments, expiresAt } = video;
  const fps = video.fps ?? USUAL_FPS;
  const reel = useMemo(() => new Reel(fps), [fps]);
  const name = title ?? UNTITLED;
  const plays = isPlayed(video.format);
  const wide = width && height ? width / height : 16 / 9;
  const told = [
    duration && seconds(duration),
    width && height && `${width} × ${height}`,
    video.fps && `${Number(video.fps.toFixed(2))} fps`,
    expiresAt && `to be seen until ${moment(expiresAt)}`,
  ];
  return (
    <div className={comments ? 'grid gap-x-10 gap-y-8 pt-2 lg:grid-cols-[minmax(0,1fr)_minmax(20rem,24rem)]' : 'pt-2'}>
      <title>{`${name.slice(0, 60)} · koda`}</title>
      <div className="min-w-0 space-y-5">
        {isGone && (
          <p role="alert" className="rounded-xl bg-bad-ground px-3.5 py-2.5 text-sm text-bad">
            The link was revoked, or it has ended: the video cannot be seen any more.
          </p>
        )}
        {plays ? (
          <Film
            src={video.videoUrl}
            poster={video.thumbnailUrl}
            label={name}
            name={fileName(name)}
            duration={duration ?? 0}
            fps={fps}
            scenes={video.scenes ?? []}
            wide={wide}
            gone={() => void client.invalidateQueries({ queryKey: ['shared', token] })}
            reel={reel}
          />
        ) : (
          <figure className="space-y-3">
            <div className="picture checkered" style={{ '--wide': wide } as CSSProperties}>
              <img src={pictureOf(video)} alt={name} className="size-full object-contain" />
            </div>
            <a
              href={video.videoUrl}
              download
              className="inline-flex min-h-10 items-center gap-2 rounded-xl bg-accent px-4 py-2.5 font-medium text-on-accent hover:opacity-90"
            >
              <Download aria-hidden className="size-4" /> Download the {video.format}
            </a>
          </figure>
        )}
        <div>
          <h1 className="text-xl font-semibold tracking-tight wrap-anywhere sm:text-2xl">{name}</h1>
          <p className="mt-1 text-sm text-muted tabular-nums">{told.filter(Boolean).join(' · ')}</p>
        </div>
      </div>
      {comments && <Comments token={token} reel={reel} fps={fps} hasMoments={plays} />}
    </div>
  );
}

/** What is seen of a video that browsers do not play: a gif moves by itself. */
function pictureOf({ format, videoUrl, thumbnailUrl }: SharedVideo): string {
  return format === 'gif' ? videoUrl : thumbnailUrl;
}

/** A place to say something of the video, or of the frame that is shown. */
function Comments({ token, reel, fps, hasMoments }: { token: string; reel: Reel; fps: number; hasMoments: boolean }) {
  const { time } = useSyncExternalStore(reel.watch, () => reel.shown);
  const [text, setText] = useState('');
  const [name, setName] = useState(rememberedName);
  const [isOfMoment, setOfMoment] = useState(true);
  const [said, setSaid] = useState<readonly ShareCommentView[]>([]);
  const field = useRef<HTMLTextAreaElement>(null);
  const isUnderWay = useRef(false); // a double click is one comment
  const frame = frameAt(time, fps);
  const [attempt] = useState(() => new Attempt());
  const sending = useMutation<ShareCommentView, Problem, { text: string; name: string; at: number | null }>({
    mutationFn: (comment) =>
      ask(`${shared(token)}/comments`, { method: 'POST', key: attempt.keyOf(comment), body: comment, credentials: 'omit' }),
    onSettled: (_, problem) => attempt.ended(problem ?? undefined),
    onSuccess: (comment, sent) => {
      setText((typed) => (typed === sent.text ? '' : typed));
      setSaid((before) => [...before, comment]);
      field.current?.focus();
      rememberName(sent.name);
    },
  });
  const form = useRef<HTMLFormElement>(null);
  useFirstWrong(form, sending.error);
  const answered = useAnswered({ problem: sending.error, name: 'text', value: text });
  const send = (event?: FormEvent) => {
    event?.preventDefault();
    if (!text.trim() || isUnderWay.current) return;
    isUnderWay.current = true;
    sending.mutate({ text, name, at: hasMoments && isOfMoment ? frame / fps : null }, { onSettled: () => (isUnderWay.current = false) });
  };
  const keys = ({ key, ctrlKey, metaKey }: KeyboardEvent) => {
    if (key === 'Enter' && (ctrlKey || metaKey)) send();
  };
  return (
    <section aria-labelledby="comments" className="space-y-5">
      <form ref={form} onSubmit={send} className="card space-y-4 p-5">
        <div>
          <h2 id="comments" className="font-semibold">
            What do you think?
          </h2>
          <p className="mt-1 text-sm text-muted">Only whoever sent you the link reads it.</p>
        </div>
        <div>
          <textarea
            ref={field}
            aria-label="Your comment"
            rows={4}
            className="field resize-y"
            value={text}
            onChange={({ target }) => {
              if (!text) reel.pause(); // the moment is that of the thought
              setText(target.value);
            }}
            onKeyDown={keys}
            {...answered.marks}
          />
          {answered.words}
        </div>
        {hasMoments && (
          <label className="flex min-h-6 cursor-pointer items-center gap-2.5 text-sm tabular-nums">
            <input type="checkbox" className="size-4 accent-(--accent)" checked={isOfMoment} onChange={({ target }) => setOfMoment(target.checked)} />
            About this moment: {timecode(frame / fps)}
          </label>
        )}
        <Field
          label={
            <span className="text-sm font-medium">
              Your name <span className="font-normal text-muted">if you like</span>
            </span>
          }
          className="field"
          autoComplete="name"
          problem={sending.error}
          name="name"
          value={name}
          set={setName}
        />
        <Said problem={sending.error} except={FIELDS} />
        <Button kind="main" type="submit" aria-disabled={sending.isPending || !text.trim()} className="aria-disabled:opacity-60" title="Ctrl+Enter">
          Send
        </Button>
      </form>
      <p role="status" className="sr-only">
        {said.length > 0 && `Sent, ${said.length === 1 ? 'one comment' : `${said.length} comments`}`}
      </p>
      {said.length > 0 && (
        <div>
          <h3 className="text-sm font-medium">Sent</h3>
          <ol aria-label="What you said" className="mt-2 space-y-3">
            {said.map((each) => (
              <Remark key={each.id} remark={each} go={reel.seek} />
            ))}
          </ol>
        </div>
      )}
    </section>
  );
}

function rememberedName(): string {
  try {
    return localStorage.getItem(NAMED) ?? '';
  } catch {
    return ''; // a browser that keeps nothing
  }
}

function rememberName(name: string): void {
  try {
    localStorage.setItem(NAMED, name);
  } catch {
    // it is typed again
  }
}

function shared(token: string): string {
  return `/v1/shares/${encodeURIComponent(token)}`;
}
