/** An animation in a node: what there is to see of it, and what it is somebody's turn to do. */
import { type FormEvent, type KeyboardEvent, type MouseEvent, type ReactNode, useState } from 'react';
import { useAround, useDraft } from './context';
import { Film } from './film';
import { Problem } from './http';
import type { CommandName } from './koda';
import { bytes, Button, Fact, Icon, Said, seconds, useAnswered } from './parts';
import { ProgressBar } from './progress-bar';
import type { Seen } from './sessions';
import { clockWords, useSeconds } from './since';
import { doingWords, farWords, isForWords, isUnanswered, type NodeSession, type Progress } from './session';

type Send = (name: CommandName, body?: object) => Promise<boolean>;

interface Props {
  session: NodeSession;
  seen: Seen;
  send: Send;
  busy: boolean;
  /** What was refused of what was sent last. */
  problem?: Problem | undefined;
}

/** What is typed says itself what is wrong with it. */
const WORDS = ['text', 'feedback'];

/** The screen of a session's phase. */
export function Screen({ session, seen }: { session: NodeSession; seen: Seen }) {
  const { koda } = useAround();
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem>();
  const send: Send = async (name, body) => {
    if (busy) return false;
    setBusy(true);
    setProblem(undefined);
    try {
      await koda.command(session, name, body);
      return true;
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      setProblem(error);
      return false;
    } finally {
      setBusy(false);
    }
  };
  const { state } = session;
  return (
    <div className="koda-screen">
      <Film session={session} />
      <Turn session={session} seen={seen} send={send} busy={busy} problem={problem} />
      <Said problem={problem ?? seen.problem} except={WORDS} />
      {session.status === 'suspended' && !state.owes && <Fact>Asleep, as you left it. Whatever you do wakes it.</Fact>}
    </div>
  );
}

function Turn(props: Props) {
  const { state } = props.session;
  if (state.owes) return <Work key={state.owes} {...props} />;
  if (state.approval) return <Approval {...props} />;
  if (state.phase === 'question' && state.question) return <Question key={state.question.text} {...props} />;
  if (state.phase === 'plan' && state.plan) return <Plan {...props} />;
  if (state.phase === 'preview') return <Preview {...props} />;
  if (state.phase === 'complete') return <Result {...props} />;
  if (state.phase === 'error' && state.error) return <Failure {...props} />;
  return <Words {...props} name="messages" label="Say something" say={(text) => ({ text })} />;
}

function Work({ session, seen, send, busy }: Props) {
  const { state } = session;
  const since = useSeconds(state.owedSince ?? session.createdAt);
  const { progress } = seen;
  const isRendering = progress !== undefined && progress.percent < 100;
  const todos = state.execution?.todos ?? [];
  return (
    <>
      <div className="koda-line">
        <p className="koda-thought">{isRendering ? rendering(state.owes === 'render_final') : seen.thinking || state.execution?.thinking || (since > 20 ? 'Still at it.' : 'One moment.')}</p>
        <span className="koda-number">{clockWords(since)}</span>
      </div>
      {isRendering && <Far progress={progress} />}
      {todos.length > 0 && (
        <ul className="koda-todos" aria-label="Steps">
          {todos.map(({ id, label, status }) => (
            <li key={id} data-status={status ?? 'pending'}>
              <span className="koda-mark" role="img" aria-label={status === 'done' ? 'done' : status === 'active' ? 'under way' : 'to come'}>
                {status === 'done' && <Icon name="done" />}
              </span>
              {label}
            </li>
          ))}
        </ul>
      )}
      <Button onClick={() => void send('cancel')} disabled={busy} title="What is there is kept">
        <Icon name="stop" /> Stop
      </Button>
    </>
  );
}

function rendering(isFinal: boolean): string {
  return isFinal ? 'Rendering the video' : 'Rendering the preview';
}

function Far({ progress }: { progress: Progress }) {
  const { percent } = progress;
  return (
    <div>
      <ProgressBar label="Rendering" percent={percent} />
      <p className="koda-line koda-fact">
        <span>{farWords(progress)}</span>
        <span>{doingWords(progress)}</span>
      </p>
    </div>
  );
}

/** A call is agreed to where all of it can be read. */
function Approval({ session, send, busy }: Props) {
  const { koda } = useAround();
  return (
    <>
      <p className="koda-heading">May koda run {session.state.approval?.name}?</p>
      <div className="koda-row">
        <a className="koda-button koda-main" href={koda.studio(session.id)}>
          Look at it
        </a>
        <Button onClick={() => void send('cancel')} disabled={busy} title="What is there is kept">
          <Icon name="stop" /> Stop
        </Button>
      </div>
    </>
  );
}

function Question({ session, send, busy, problem }: Props) {
  const question = session.state.question;
  const place = `${session.id} ${question?.text}`;
  const [option, setOption] = useDraft(`${place} option`);
  const [words, setWords] = useDraft(place);
  const options = question?.options ?? [];
  const { marks, words: said } = useAnswered({ problem, name: 'text', value: words });
  const answer = (event: FormEvent) => {
    event.preventDefault();
    const text = words.trim();
    if (isUnanswered(question, option, words)) return;
    void send('answer', { ...(option && !isForWords(question, option) ? { optionId: option } : {}), ...(text ? { text } : {}) });
  };
  return (
    <form onSubmit={answer} className="koda-form">
      <fieldset>
        <legend className="koda-heading">{question?.text}</legend>
        {options.map(({ id, label, description }) => (
          <label key={id} className="koda-option">
            <input type="radio" name={`option-${session.id}`} checked={option === id} onChange={() => setOption(id)} />
            <span>
              {label}
              {description && <small>{description}</small>}
            </span>
          </label>
        ))}
      </fieldset>
      {question?.customInput && (
        <input aria-label={options.length > 0 ? 'Or in your own words' : 'Your answer'} placeholder={options.length > 0 ? 'Or in your own words' : 'Your answer'} value={words} onChange={({ target }) => setWords(target.value)} {...marks} />
      )}
      {said}
      <Button kind="main" type="submit" disabled={busy || isUnanswered(question, option, words)}>
        Answer
      </Button>
    </form>
  );
}

function Plan(props: Props) {
  const { session, send, busy } = props;
  const plan = session.state.plan;
  if (!plan) return null;
  return (
    <>
      <Fact>
        {[plan.style, seconds(plan.totalDuration), plan.width && `${plan.width} × ${plan.height}`, plan.fps && `${plan.fps} fps`].filter(Boolean).join(' · ')}
      </Fact>
      <ol className="koda-scenes" aria-label="Scenes of the plan">
        {plan.scenes.map(({ number, title, duration, description }) => (
          <li key={number}>
            <span>
              {title} <small className="koda-number">{seconds(duration)}</small>
            </span>
            <small>{description}</small>
          </li>
        ))}
      </ol>
      <div className="koda-row">
        <Button kind="main" onClick={() => void send('accept')} disabled={busy}>
          Make this
        </Button>
        <Button kind="quiet" onClick={() => void send('reject')} disabled={busy}>
          Ask me again
        </Button>
      </div>
      <Changes {...props} />
    </>
  );
}

function Preview(props: Props) {
  const { session, send, busy } = props;
  const { resolution = '1080p', fps = 60, format = 'mp4' } = session.state.render ?? {};
  return (
    <>
      <Button kind="main" onClick={() => void send('accept')} disabled={busy}>
        Render {resolution === '4k' ? '4K' : resolution} at {fps} fps{format !== 'mp4' && ` as ${format}`}
      </Button>
      <Changes {...props} />
    </>
  );
}

function Result(props: Props) {
  const { koda } = useAround();
  const { session } = props;
  const { output } = session.state;
  const [problem, setProblem] = useState<Problem>();
  if (!output)
    return (
      <>
        <Fact>Its finished video was deleted</Fact>
        <Changes {...props} />
      </>
    );
  const download = async (event: MouseEvent) => {
    if (!koda.isElsewhere()) return; // its address does not come to an end
    event.preventDefault();
    setProblem(undefined);
    try {
      window.location.assign(await koda.download(session.id, output.jobId));
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      setProblem(error);
    }
  };
  return (
    <>
      <div className="koda-line">
        <Fact>{[output.duration && seconds(output.duration), output.resolution, output.fileSize && bytes(output.fileSize)].filter(Boolean).join(' · ')}</Fact>
        <a className="koda-button koda-plain" href={koda.media(session.id, 'video', output.jobId, { download: true })} onClick={(event) => void download(event)}>
          <Icon name="down" /> Download
        </a>
      </div>
      <Said problem={problem} />
      <Changes {...props} />
    </>
  );
}

function Failure(props: Props) {
  const { session, send, busy } = props;
  const error = session.state.error;
  if (!error) return null;
  return (
    <>
      <p role="alert" className="koda-said">
        {error.message} <code>{error.code}</code>
      </p>
      {error.canRetry && (
        <Button kind="main" onClick={() => void send('retry')} disabled={busy}>
          Try again
        </Button>
      )}
      <Changes {...props} />
    </>
  );
}

function Changes(props: Props) {
  return <Words {...props} name="changes" label="What should be different?" say={(feedback) => ({ feedback })} />;
}

function Words({ session, send, busy, problem, name, label, say }: Props & { name: CommandName; label: string; say: (words: string) => object }): ReactNode {
  const [words, setWords] = useDraft(`${session.id} ${name}`);
  const { marks, words: said } = useAnswered({ problem, name: name === 'changes' ? 'feedback' : 'text', value: words });
  const tell = async (event?: FormEvent) => {
    event?.preventDefault();
    if (words.trim() && (await send(name, say(words)))) setWords((now) => (now === words ? '' : now));
  };
  const keys = (event: KeyboardEvent) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) void tell();
  };
  return (
    <form onSubmit={(event) => void tell(event)} className="koda-words">
      <textarea aria-label={label} placeholder={label} rows={1} value={words} onChange={({ target }) => setWords(target.value)} onKeyDown={keys} {...marks} />
      <Button type="submit" disabled={busy || !words.trim()} title="Ctrl+Enter">
        Send
      </Button>
      {said}
    </form>
  );
}
