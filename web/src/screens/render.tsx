import { ChevronLeft, Download, Film as FilmSign, MonitorPlay } from 'lucide-react';
import { type CSSProperties, useEffect, useRef, useState } from 'react';
import { Link, useLocation } from 'wouter';
import { clock } from '../../node/src/clock';
import { useAct } from '../api/acts';
import { ago } from '../api/dates';
import { isPlayed } from '../api/finals';
import { useWatching } from '../api/footage';
import { KeepsPlace } from '../api/place';
import { useBatch, useRender } from '../api/queue';
import { batchWords, isOver, nameOf, optionsIn, pictureWords, progressOf, type RenderSummary, type RenderView, stateWords, summaryOf, warningsIn } from '../api/renders';
import { fileName } from '../api/words';
import { AskAgain } from '../parts/ask-again';
import { Bar } from '../parts/bar';
import { Film } from '../parts/film';
import { Footage } from '../parts/footage';
import { Gif } from '../parts/gif';
import { Key, useKey } from '../parts/keys';
import { Orders, Progress } from '../parts/render-row';
import { Said } from '../parts/said';
import { Missing } from './missing';

const USUAL_FPS = 30;
const USUAL_WIDE = 16 / 9;
const WATCH = 'Watch it as it is rendered';
const QUIET = 'inline-flex min-h-9 items-center gap-2 rounded-lg px-2.5 text-sm text-muted hover:bg-sunken hover:text-text';

/** One page's render: its video, as it is made and then frame by frame, and all that is known of it. */
export function Render({ id }: { id: string }) {
  const { data: view, error } = useRender(id);
  const [isGone, setGone] = useState(false);
  const [, go] = useLocation();
  useEffect(() => {
    window.scrollTo(0, 0);
  }, []);
  if (error?.status === 404) return <Missing what="This render is not there any more." way={['/renders', 'To all renders']} />;
  if (!view) return error ? <Said problem={error} /> : <p className="py-16 text-muted">One moment…</p>;
  const render = summaryOf(view);
  const name = nameOf(render);
  return (
    <>
      <title>{`${name} · koda`}</title>
      <p role="status" className="sr-only">
        {stateWords(render)}
      </p>
      <Link href="/renders" className="inline-flex min-h-8 items-center gap-1 text-sm text-muted hover:text-text">
        <ChevronLeft aria-hidden className="size-4" /> All renders
      </Link>
      <div className="pb-4">
        <h1 className="text-xl font-semibold tracking-tight wrap-anywhere sm:text-2xl">{name}</h1>
        <p className="mt-1 text-sm text-muted tabular-nums">{[...pictureWords(render), ago(render.createdAt, clock.now())].join(' · ')}</p>
      </div>
      <div className="flex flex-col gap-x-6 gap-y-5 lg:grid lg:grid-cols-[minmax(0,1fr)_clamp(20rem,30vw,27rem)] xl:gap-x-10">
        <div className="min-w-0 space-y-5">
          <KeepsPlace value>
            <Picture view={view} render={render} name={name} isGone={isGone} gone={() => setGone(true)} />
          </KeepsPlace>
          {render.status === 'succeeded' && <Sheet id={id} name={name} />}
        </div>
        <div className="min-w-0 space-y-5">
          <section aria-labelledby="state" className="card space-y-4 p-5">
            <h2 id="state" className="font-semibold">
              {HEADINGS[render.status]}
            </h2>
            {!isOver(render) && <Progress render={render} name={name} />}
            {render.status === 'failed' && <Why error={render.error} />}
            <Main render={render} isGone={isGone} />
            <div className="-ml-3 [&>div]:justify-start">
              <Orders render={{ ...render, videoUrl: null }} name={name} gone={false} begun={(other) => go(`/renders/${other}`)} removed={() => go('/renders', { replace: true })} />
            </div>
            <Warnings view={view} />
          </section>
          {view.batchId && <Batch id={view.batchId} row={view.row} />}
          <Options view={view} />
        </div>
      </div>
    </>
  );
}

interface PictureProps {
  view: RenderView;
  render: RenderSummary;
  name: string;
  isGone: boolean;
  gone: () => void;
}

/** What there is to see of it: what stands of the video while it is made, then the video. */
function Picture({ view, render, name, isGone, gone }: PictureProps) {
  const { id, status, videoUrl, thumbnailUrl, width, height, fps, duration, format } = render;
  const isMade = status === 'succeeded';
  const watching = useWatching(progressOf(view), { byItself: !isMade, standing: isMade ? id : undefined, works: !isOver(render) });
  useAct(watching.offers && WATCH, watching.begin);
  const wide = width && height ? width / height : USUAL_WIDE;
  const film = fileName(name);
  const lost = isGone || !videoUrl || !thumbnailUrl;
  return (
    <figure className="space-y-2">
      {watching.jobId ? (
        <Footage jobId={id} label="The video as it is rendered" wide={wide} end={watching.end} leave={watching.leave} />
      ) : lost ? (
        <div className="picture bg-sunken" style={{ '--wide': wide } as CSSProperties}>
          <p className="max-w-sm px-8 py-10 text-center text-balance text-muted">{isMade ? 'This video is not there any more. Render it again.' : NOTHING[status]}</p>
        </div>
      ) : format === 'gif' ? (
        <Gif src={videoUrl} still={thumbnailUrl} wide={wide} gone={gone} />
      ) : isPlayed(format) ? (
        <Film
          src={videoUrl}
          poster={thumbnailUrl}
          label="The video"
          name={film}
          duration={duration ?? 0}
          fps={fps ?? USUAL_FPS}
          scenes={[]}
          wide={wide}
          sprites={[`/v1/renders/${id}/sprite.jpg`]}
          otherwise="or render it in another format"
          gone={gone}
        />
      ) : (
        <div className="picture checkered" style={{ '--wide': wide } as CSSProperties}>
          <img src={thumbnailUrl} alt="A frame of the video" className="size-full object-contain" />
        </div>
      )}
      {!lost && !watching.jobId && format !== 'gif' && !isPlayed(format) && (
        <p className="text-sm text-muted">A {format} is to be downloaded, since browsers do not play it here.</p>
      )}
      {(watching.jobId || watching.offers) && (
        <div className="flex justify-end">
          <button type="button" className={QUIET} onClick={watching.jobId ? watching.leave : watching.begin}>
            {watching.jobId ? <FilmSign aria-hidden className="size-4" /> : <MonitorPlay aria-hidden className="size-4" />}
            {!watching.jobId ? WATCH : isMade ? 'To the video' : 'Leave it'}
          </button>
        </div>
      )}
    </figure>
  );
}

const HEADINGS: Record<RenderSummary['status'], string> = {
  queued: 'It waits',
  running: 'It is rendered',
  succeeded: 'It is finished',
  failed: 'This stopped',
  cancelled: 'It was cancelled',
};
const NOTHING: Record<RenderSummary['status'], string> = {
  queued: 'The picture comes here as soon as there is one.',
  running: 'The picture comes here as soon as there is one.',
  succeeded: '',
  failed: 'There was nothing to see yet when this stopped.',
  cancelled: 'There was nothing to see yet when this was cancelled.',
};

/** What most people are here for, once it is there. */
function Main({ render: { videoUrl }, isGone }: { render: RenderSummary; isGone: boolean }) {
  const link = useRef<HTMLAnchorElement>(null);
  const canSave = Boolean(videoUrl) && !isGone;
  const download = () => link.current?.click();
  useKey('d', canSave ? download : undefined);
  useAct(canSave && 'Download the video', download);
  if (!canSave) return null;
  return (
    <a
      ref={link}
      href={`${videoUrl}?download=true`}
      className="inline-flex min-h-10 items-center gap-2 rounded-xl bg-accent px-4 py-2.5 font-medium text-on-accent hover:opacity-90"
    >
      <Download aria-hidden className="size-4" /> Download the video <Key name="D" />
    </a>
  );
}

function Why({ error }: Pick<RenderSummary, 'error'>) {
  const [message, code] = [error?.message, error?.code].map((each) => (typeof each === 'string' ? each : ''));
  return (
    <p className="text-sm wrap-anywhere whitespace-pre-wrap">
      {message} {code && <code className="text-xs text-bad">{code}</code>}
    </p>
  );
}

function Warnings({ view }: { view: RenderView }) {
  const warnings = warningsIn(view);
  const isStill = view.result?.still === true;
  if (warnings.length === 0 && !isStill) return null;
  return (
    <ul aria-label="What was noticed" className="list-disc space-y-1 pl-5 text-sm text-muted wrap-anywhere">
      {isStill && <li>All its frames are one picture.</li>}
      {warnings.map((each) => (
        <li key={each}>{each}</li>
      ))}
    </ul>
  );
}

/** Frames side by side, fetched when somebody wants to see them. */
function Sheet({ id, name }: { id: string; name: string }) {
  const [isOpen, setOpen] = useState(false);
  const [failed, setFailed] = useState(false);
  return (
    <details className="text-sm" onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary className="min-h-6 w-fit cursor-pointer text-muted">Contact sheet</summary>
      {isOpen &&
        (failed ? (
          <p className="mt-2 text-muted">It is not kept any more.</p>
        ) : (
          <a href={`/v1/renders/${id}/sheet`} target="_blank" rel="noreferrer" className="mt-2 block w-fit">
            <img src={`/v1/renders/${id}/sheet`} alt={`Frames of ${name}, side by side`} className="max-h-[80dvh] max-w-full rounded-lg" onError={() => setFailed(true)} />
            <span className="sr-only"> Open it in another tab</span>
          </a>
        ))}
    </details>
  );
}

/** How far the batch is that it is of. */
function Batch({ id, row }: { id: string; row: number | null | undefined }) {
  const found = useBatch(id);
  const far = found.data && batchWords(found.data);
  return (
    <section aria-labelledby="batch" className="card space-y-3 p-5 text-sm">
      <h2 id="batch" className="text-base font-semibold">
        {row && found.data ? `Row ${row} of ${found.data.renders}` : 'One of a batch'}
      </h2>
      <AskAgain what="The batch" found={found} />
      {far && (
        <>
          <Bar label="The batch" percent={far.percent} glides />
          <p className="text-muted tabular-nums">{far.words}</p>
        </>
      )}
      <Link href={`/renders?q=${id}`} className="inline-flex min-h-6 items-center text-accent underline underline-offset-4">
        All of its videos
      </Link>
    </section>
  );
}

function Options({ view }: { view: RenderView }) {
  return (
    <section aria-labelledby="options" className="px-1 text-sm">
      <h2 id="options" className="font-medium">
        Rendered with
      </h2>
      <dl className="mt-2 grid grid-cols-[auto_minmax(0,1fr)] gap-x-5 gap-y-1.5">
        {optionsIn(view).map(([name, value]) => (
          <div key={name} className="contents">
            <dt className="text-muted">{name}</dt>
            <dd className="wrap-anywhere">{value}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}
