import { Columns2, Download, FolderDown, Image, RotateCcw, Square } from 'lucide-react';
import { useRef, useState } from 'react';
import { Link } from 'wouter';
import { doingWords, farWords } from '../../node/src/session';
import { clockWords, useSeconds } from '../../node/src/since';
import { useAct } from '../api/acts';
import type { SessionView } from '../api/client';
import { hasFiles } from '../api/files';
import { type Final, finalName, formOf, isMadeBy, isPlayed, useFinalList, useFinals } from '../api/finals';
import type { Progress } from '../api/hooks';
import { bytes } from '../api/words';
import { heading, kept, sentence, stoppedWords, useLong } from '../api/working';
import type { Sent } from '../screens/session';
import { Approval } from './approval';
import { AskAgain } from './ask-again';
import { Bar } from './bar';
import { Button } from './button';
import { Copied } from './copied';
import { Deletion } from './deletion';
import { useRefocus } from './focus';
import { FilesButton } from './files-button';
import { Key, useKey } from './keys';
import { useMedia, WIDE } from './media';
import { Plan } from './plan';
import { Question } from './question';
import { Rendering } from './rendering';
import { Said } from './said';
import { Share } from './share';
import { Steps } from './steps';
import { answering, shownOf, TURN_SAID } from './turned';
import { AsWritten } from './writing';
import { WrittenFile } from './written-file';

export interface Props extends Sent {
  session: SessionView;
  progress: Progress | undefined;
  thinking: string;
  /** The job whose video was looked for, and is not there. */
  lost: string;
  lookAtFiles: () => void;
}

/** What it is a person's turn to do, or what is being done; and below it what was refused of that. */
export function Turn(props: Props) {
  const { session, refused } = props;
  const part = useRef<HTMLDivElement>(null);
  useRefocus(shownOf(session.state), part);
  return (
    <div ref={part} className="space-y-3">
      {session.state.stopped && !session.state.owes && session.state.phase !== 'error' && (
        <p role="status" className="rounded-xl bg-sunken px-3.5 py-2.5 text-sm">
          {stoppedWords(session)}
        </p>
      )}
      <Now {...props} />
      <Said problem={refused?.problem} id={TURN_SAID} except={refused && answering(refused)} />
    </div>
  );
}

function Now(props: Props) {
  const { state } = props.session;
  if (state.owes) return <Work key={state.owes} {...props} />;
  if (state.approval) return <Approval key={state.approval.approvalId} {...props} call={state.approval} />;
  if (state.phase === 'question' && state.question) return <Question key={state.question.text} {...props} hasKeys />;
  if (state.phase === 'plan' && state.plan) return <Plan {...props} />;
  if (state.phase === 'preview') return <Preview {...props} />;
  if (state.phase === 'complete') return <Result {...props} />;
  if (state.phase === 'error' && state.error) return <Failure {...props} />;
  return null;
}

function Work({ session, progress, thinking, send, busy }: Props) {
  const { state } = session;
  const todos = state.execution?.todos ?? [];
  const since = useSeconds(state.owedSince ?? session.createdAt);
  const isLong = useLong(thinking, since);
  const isRendering = progress !== undefined && progress.percent < 100;
  const isWide = useMedia(WIDE);
  const stop = () => void send('cancel');
  useAct(!busy && 'Stop', stop);
  const steps = todos.length > 0 && <Steps todos={todos} />;
  return (
    <section className="card space-y-4 p-5" aria-labelledby="work">
      <div className="flex items-center gap-3">
        <h2 id="work" className="mr-auto min-w-0 font-semibold">
          {isRendering ? (state.owes === 'render_final' ? 'Rendering the video' : 'Rendering the preview') : heading(state.owes)}
        </h2>
        <span className="text-sm text-muted tabular-nums">{clockWords(since)}</span>
        <Button className="-my-1 min-h-9 shrink-0 px-3 py-1.5 text-sm" onClick={stop} disabled={busy} title="What is there is kept">
          <Square aria-hidden className="size-3.5" /> Stop
        </Button>
      </div>
      {isRendering ? (
        <div className="space-y-2">
          <Bar label="Rendering" percent={progress.percent} className="h-2 bg-sunken max-lg:sr-only" />
          <p className="flex flex-wrap justify-between gap-x-3 text-sm text-muted tabular-nums">
            <span>{farWords(progress)}</span>
            <span>{doingWords(progress)}</span>
          </p>
        </div>
      ) : (
        <p className="text-sm text-muted">
          {thinking ? (isLong ? sentence(thinking) : thinking) : !isLong && 'One moment.'} {isLong && <span className="inline-block">Still at it.</span>}
        </p>
      )}
      {isWide || !steps ? (
        steps
      ) : (
        <details className="text-sm">
          <summary className="min-h-6 cursor-pointer text-muted">All steps</summary>
          <div className="mt-2">{steps}</div>
        </details>
      )}
      {todos.length === 0 && !isRendering && (
        <div aria-hidden className="space-y-2.5">
          {['w-4/5', 'w-3/5', 'w-2/3'].map((width) => (
            <div key={width} className={`breathing h-3 rounded-full bg-sunken ${width}`} />
          ))}
        </div>
      )}
      {state.owes === 'execute' && !isRendering && <AsWritten session={session} />}
      {state.execution && state.execution.files.length > 0 && <Written sessionId={session.id} paths={state.execution.files} />}
    </section>
  );
}

/** What was written so far, folded away. */
function Written({ sessionId, paths }: { sessionId: string; paths: readonly string[] }) {
  return (
    <details className="text-sm">
      <summary className="min-h-6 cursor-pointer text-muted">
        {paths.length} {paths.length === 1 ? 'file' : 'files'} written
      </summary>
      <ul className="mt-2 space-y-1.5">
        {paths.map((path) => (
          <li key={path}>
            <WrittenFile sessionId={sessionId} path={path} />
          </li>
        ))}
      </ul>
      <a
        href={`/v1/sessions/${sessionId}/source.zip`}
        download
        className="mt-3 inline-flex min-h-8 items-center gap-2 text-muted underline-offset-4 hover:text-text hover:underline"
      >
        <FolderDown aria-hidden className="size-4" /> All of it as a zip
      </a>
    </details>
  );
}

const QUIET = 'inline-flex min-h-10 items-center gap-2 rounded-xl px-3 py-2 text-sm text-muted hover:bg-sunken hover:text-text';
function Preview({ session, send, busy, lookAtFiles }: Props) {
  return (
    <section className="card space-y-4 p-5" aria-labelledby="preview">
      <h2 id="preview" className="font-semibold">
        Here is a preview
      </h2>
      <p className="text-sm text-muted">Render it in full, or say below what should be different.</p>
      <Rendering session={session} send={send} busy={busy} />
      <div className="-ml-3">
        <Share sessionId={session.id} job={session.state.preview?.jobId ?? undefined} />
        <FilesButton look={lookAtFiles} />
      </div>
    </section>
  );
}

function Result({ session, send, busy, lost, lookAtFiles }: Props) {
  const { preview } = session.state;
  const isLost = Boolean(lost) && session.state.output?.jobId === lost;
  const output = isLost ? undefined : session.state.output;
  const { format, transparent } = formOf(session.state);
  const finals = useFinals(session);
  const link = useRef<HTMLAnchorElement>(null);
  const heading = useRef<HTMLHeadingElement>(null);
  const [said, setSaid] = useState('');
  const download = () => link.current?.click();
  useKey('d', output ? download : undefined);
  useAct(Boolean(output) && 'Download the video', download);
  const size = output?.fileSize ? bytes(output.fileSize) : '';
  const shown = output && finals.find(isMadeBy(output.jobId));
  const before = finals.filter((each) => each !== shown && each.bundle === preview?.bundle);
  const deleted = (name: string) => {
    setSaid(`Deleted: ${name}`);
    heading.current?.focus(); // what had it is not there any more
  };
  return (
    <section className="card space-y-4 p-5" aria-labelledby="result">
      <h2 ref={heading} id="result" tabIndex={-1} className="w-fit font-semibold">
        {output ? 'It is finished' : isLost ? 'Its video is not there any more' : 'Its finished video was deleted'}
      </h2>
      <p role="status" className="sr-only">
        {said}
      </p>
      {output ? (
        <>
          <p className="text-sm text-muted">
            {[transparent ? `${format}, transparent` : format, output.duration ? `${Number(output.duration.toFixed(1))} s` : '', output.resolution, size].filter(Boolean).join(' · ')}
          </p>
          <a
            ref={link}
            href={`/v1/sessions/${session.id}/video?job=${output.jobId}&download=true`}
            className="inline-flex min-h-10 items-center gap-2 rounded-xl bg-accent px-4 py-2.5 font-medium text-on-accent hover:opacity-90"
          >
            <Download aria-hidden className="size-4" /> Download the video <Key name="D" />
          </a>
          <div className="-mx-3 grid grid-cols-[auto_1fr] justify-items-start gap-x-2 [&>[role=group]]:col-span-full [&>[role=group]]:mx-3 [&>[role=group]]:w-auto">
            <a href={`/v1/sessions/${session.id}/thumbnail?job=${output.jobId}`} download="poster.jpg" className={QUIET}>
              <Image aria-hidden className="size-4" /> Poster
            </a>
            {preview && isPlayed(format) && (
              <Link href={`/s/${session.id}/compare?a=${preview.jobId}&b=${output.jobId}`} className={QUIET}>
                <Columns2 aria-hidden className="size-4" /> Beside its preview
              </Link>
            )}
            <Share sessionId={session.id} job={output.jobId ?? undefined} />
            {shown && (
              <Deletion key={shown.id} session={session} final={shown} name="this video" means="Its preview is seen in its place, where that is still kept." deleted={() => deleted(finalName(shown))} />
            )}
            <FilesButton look={lookAtFiles} />
          </div>
        </>
      ) : (
        <>
          <p className="text-sm text-muted">Its page and its files are there: it can be rendered again.</p>
          <Rendering session={session} send={send} busy={busy} again isMain />
          <div className="-ml-3">
            <FilesButton look={lookAtFiles} />
          </div>
        </>
      )}
      <AskAgain what="What it was rendered to" found={useFinalList(session)} />
      <Finals session={session} finals={before} deleted={deleted} />
      {output && (
        <details className="text-sm">
          <summary className="min-h-6 cursor-pointer text-muted">Another size or format</summary>
          <div className="mt-3">
            <Rendering session={session} send={send} busy={busy} again />
          </div>
        </details>
      )}
      <p className="text-sm text-muted">Something to change? Say it below.</p>
    </section>
  );
}

interface FinalsProps {
  session: SessionView;
  finals: readonly Final[];
  deleted: (name: string) => void;
}

/** What else this was rendered to, to be downloaded as well, or deleted. */
function Finals({ session, finals, deleted }: FinalsProps) {
  if (finals.length === 0) return null;
  return (
    <section aria-labelledby="finals" className="space-y-1">
      <h3 id="finals" className="text-sm font-medium">
        Rendered before
      </h3>
      <ul className="-mx-3 text-sm">
        {finals.map((each) => (
          <li key={each.id}>
            <Deletion session={session} final={each} name={finalName(each)} deleted={() => deleted(finalName(each))}>
              {(button) => (
                <div className="flex items-center gap-1">
                  <a
                    href={`${each.videoUrl}&download=true`}
                    className="flex min-h-9 min-w-0 flex-1 items-center gap-2 rounded-xl px-3 py-1.5 text-muted tabular-nums hover:bg-sunken hover:text-text"
                  >
                    <Download aria-hidden className="size-4 shrink-0" />
                    <span className="sr-only">Download </span>
                    <span className="min-w-0 flex-1 wrap-anywhere">{finalName(each)}</span>
                    {each.fileSize && <span>{bytes(each.fileSize)}</span>}
                  </a>
                  {button}
                </div>
              )}
            </Deletion>
          </li>
        ))}
      </ul>
    </section>
  );
}

function Failure({ session, send, busy, lookAtFiles }: Props) {
  const error = session.state.error;
  if (!error) return null;
  const told = [`${error.code}: ${error.message}`, session.id, error.details].filter(Boolean).join('\n');
  return (
    <section className="card space-y-4 border-bad p-5" aria-labelledby="failure">
      <div role="alert" className="space-y-4">
        <h2 id="failure" className="font-semibold">
          This stopped
        </h2>
        <p className="text-sm wrap-anywhere">{error.message}</p>
      </div>
      {error.details && (
        <details className="text-sm">
          <summary className="min-h-6 cursor-pointer text-muted">Details</summary>
          <pre className="mt-2 max-h-60 overflow-auto rounded-lg bg-sunken p-3 text-xs whitespace-pre-wrap" tabIndex={0}>
            {error.details}
          </pre>
        </details>
      )}
      <p className="text-sm text-muted">{kept(session)} {error.canRetry ? 'Try again, or say below what to change.' : 'Say below what to change.'}</p>
      <div className="flex flex-wrap gap-2 empty:hidden">
        {error.canRetry && (
          <Button kind="main" onClick={() => void send('retry')} disabled={busy}>
            <RotateCcw aria-hidden className="size-4" /> Try again
          </Button>
        )}
        {hasFiles(session.state) && <FilesButton look={lookAtFiles} />}
      </div>
      <Copied label="The code and the message" text={told} />
    </section>
  );
}
