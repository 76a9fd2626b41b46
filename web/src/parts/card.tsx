import { useQueryClient } from '@tanstack/react-query';
import { Pencil, Pin, Trash2, Workflow } from 'lucide-react';
import { type FormEvent, type KeyboardEvent, useState } from 'react';
import { Link } from 'wouter';
import type { Problem, SessionSummary } from '../api/client';
import { ago, exactly } from '../api/dates';
import { deletions } from '../api/deleted';
import { useLabel } from '../api/hooks';
import { Button } from './button';
import { useDraft } from './draft';
import { Forked } from './forked';
import { Glimpse, PlayButton, seconds, useGlimpse } from './glimpse';
import { Phase } from './phase';
import { PutOnCanvas } from './put-on-canvas';
import { Said } from './said';
import { PinButton, TITLE, useTitle } from './title';

/** Over the line of a card that one is at; where fingers point, below it. */
const ACTS =
  'absolute right-2 bottom-2.5 flex rounded-lg bg-panel pl-1 opacity-0 transition-opacity group-hover/card:opacity-100 group-focus-within/card:opacity-100 motion-reduce:transition-none pointer-coarse:static pointer-coarse:justify-end pointer-coarse:px-2 pointer-coarse:pb-2 pointer-coarse:opacity-100';
const ACT = 'grid size-8 shrink-0 place-items-center rounded-lg text-muted hover:bg-sunken hover:text-text';

/** An animation among others: its picture, which plays while one stays at it, and what it is called, where it is and since when. */
export function Card({ session, now }: { session: SessionSummary; now: number }) {
  const [draft, setDraft, pencil] = useDraft();
  const [broken, setBroken] = useState<string>();
  const [notPinned, tell] = useState<Problem | null>(null);
  const glimpse = useGlimpse();
  const client = useQueryClient();
  const title = session.title ?? session.prompt;
  const video = session.videoUrl && session.videoUrl !== broken ? session.videoUrl : undefined;
  const remove = (byKeys: boolean) => {
    const beside = besideOf(session.id);
    glimpse.stop();
    if (!byKeys) focusOn(beside);
    void deletions.remove({ id: session.id, title, beside, byKeys }, client);
  };
  const pressed = (event: KeyboardEvent) => {
    if (!(event.target instanceof HTMLAnchorElement) || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === 'F2') setDraft(session.title ?? '');
    else if (event.key === 'Delete') remove(true);
    else if (event.key === 'Escape') glimpse.stop();
    else return;
    event.preventDefault();
  };
  const picture = (
    <Glimpse
      poster={session.thumbnailUrl}
      video={glimpse.isPlaying ? video : undefined}
      duration={session.duration}
      failed={() => setBroken(session.videoUrl ?? undefined)}
    />
  );
  return (
    <li
      data-session={session.id}
      className="group/card card relative flex flex-col overflow-hidden hover:border-line-strong has-[a:focus-visible]:border-accent"
      onKeyDown={pressed}
      {...(video ? glimpse.around : {})}
    >
      {draft === undefined ? (
        <Link href={`/s/${session.id}`} aria-keyshortcuts="F2 Delete" className="flex flex-1 flex-col rounded-2xl -outline-offset-2">
          {picture}
          <div className="flex flex-1 flex-col gap-1.5 p-4 pointer-coarse:pb-1">
            <p className="line-clamp-2 min-h-10 text-sm leading-5 font-medium wrap-anywhere">{title}</p>
            <Forked from={session.forkedFrom} title={session.forkedTitle} className="line-clamp-1 text-sm text-muted wrap-anywhere" />
            <Line session={session} now={now} />
          </div>
        </Link>
      ) : (
        <>
          {picture}
          <Rename session={session} draft={draft} setDraft={setDraft} />
        </>
      )}
      {session.pinned && <Pin aria-hidden className="absolute top-2.5 right-2.5 size-7 rounded-full bg-panel/90 fill-current p-1.5 text-accent" />}
      {video && <PlayButton of={title} isPlaying={glimpse.isPlaying} toggle={glimpse.toggle} />}
      {draft === undefined && (
        <div className={ACTS}>
          <PinButton session={session} label={`Pin ${title}`} className="size-8" tell={tell} />
          <button
            ref={pencil}
            type="button"
            aria-label={`Rename ${title}`}
            title="Rename (F2)"
            className={ACT}
            onClick={() => setDraft(session.title ?? '')}
          >
            <Pencil aria-hidden className="size-4" />
          </button>
          <PutOnCanvas sessionId={session.id} title={title} label={`Put ${title} on a canvas`} className={ACT}>
            <Workflow aria-hidden className="size-4" />
          </PutOnCanvas>
          <button type="button" aria-label={`Delete ${title}`} title="Delete" className={ACT} onClick={({ detail }) => remove(detail === 0)}>
            <Trash2 aria-hidden className="size-4" />
          </button>
        </div>
      )}
      {notPinned && (
        <div className="absolute inset-x-2.5 top-2.5">
          <Said problem={notPinned} />
        </div>
      )}
    </li>
  );
}

/** Where it is, how far, and since when. */
export function Line({ session, now }: { session: SessionSummary; now: number }) {
  const { phase, todos, todosDone, take, duration, updatedAt } = session;
  return (
    <p className="mt-auto flex flex-wrap items-center gap-x-2.5 gap-y-0.5 text-sm text-muted">
      <Phase state={session} />
      {take && <span>Take {take}</span>}
      {todos > 0 && phase === 'executing' && (
        <span className="tabular-nums">
          {todosDone} of {todos}
        </span>
      )}
      {duration && <span className="sr-only">{seconds(duration)}</span>}
      <time dateTime={updatedAt} title={exactly(updatedAt)} className="ml-auto tabular-nums">
        {ago(updatedAt, now)}
      </time>
    </p>
  );
}

function Rename({ session, draft, setDraft }: { session: SessionSummary; draft: string; setDraft: (draft: string | undefined) => void }) {
  const label = useLabel(session.id);
  const leave = () => setDraft(undefined);
  const save = (event: FormEvent) => {
    event.preventDefault();
    if (!label.isPending) label.mutate({ title: draft }, { onSuccess: leave });
  };
  const said = `said-${session.id}`;
  const { marks, words } = useTitle(label.error, draft, said);
  return (
    <form onSubmit={save} onKeyDown={({ key }) => key === 'Escape' && leave()} className="space-y-2 p-4">
      <input
        aria-label="Title"
        className="field text-sm font-medium"
        placeholder={session.prompt}
        autoFocus
        value={draft}
        onChange={(event) => setDraft(event.target.value)}
        {...marks}
      />
      {words}
      <Said problem={label.error} id={said} except={TITLE} />
      <div className="flex gap-2">
        <Button kind="main" type="submit" className="px-3 py-1.5 text-sm" disabled={label.isPending}>
          Save
        </Button>
        <Button kind="quiet" onClick={leave}>
          Leave it
        </Button>
      </div>
    </form>
  );
}

/** Have the focus at a card, else at what says what cards these are. */
export function focusOn(id: string | undefined): void {
  const card = id === undefined ? null : document.querySelector<HTMLElement>(`[data-session="${CSS.escape(id)}"] a`);
  (card ?? document.getElementById('all'))?.focus();
}

/** The card after one, else the one before. */
function besideOf(id: string): string | undefined {
  const card = document.querySelector(`[data-session="${CSS.escape(id)}"]`);
  const beside = card?.nextElementSibling ?? card?.previousElementSibling;
  return beside instanceof HTMLElement ? beside.dataset['session'] : undefined;
}
