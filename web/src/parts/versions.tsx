import { useMutation, useQuery } from '@tanstack/react-query';
import { Columns2, FolderDown, GitFork, History, Star, X } from 'lucide-react';
import { type FormEvent, useEffect, useRef, useState } from 'react';
import { Link, useLocation } from 'wouter';
import { clock } from '../../node/src/clock';
import { useAct } from '../api/acts';
import { ask, command, Problem, type Schemas, type SessionView, type VersionView } from '../api/client';
import { beside, isRestored, lines, useChosen, useOlderVersions, useVersionLabel, useVersionPages } from '../api/versions';
import type { Sent } from '../screens/session';
import { AskAgain } from './ask-again';
import { Button } from './button';
import { useDraft } from './draft';
import { useEscape } from './escape';
import { useAnswered, useFirstWrong } from './field';
import { FilesButton } from './files-button';
import { useKey } from './keys';
import { Said } from './said';
import { Share } from './share';

const NOTE = ['note'];

const UNDO = 'undo';

interface Props extends Sent {
  session: SessionView;
  versions: readonly VersionView[];
  chosen: VersionView | undefined;
  choose: (number: number | undefined) => void;
  lookAtFiles: () => void;
}

/** All that was ever shown, as a strip: each can be looked at, gone back to, and be where something else begins. */
export function Versions({ session, versions, chosen, choose, lookAtFiles, send, busy, refused }: Props) {
  const part = useRef<HTMLElement>(null);
  const list = useRef<HTMLUListElement>(null);
  const found = useVersionPages(session.id);
  const [putBack, setPutBack] = useState<number>();
  const [asked, setAsked] = useState(''); // what was sent last: the version that was to be there again, or that it was not to be
  const restored = isRestored(putBack, versions, session.state) ? putBack : undefined;
  const step = (by: -1 | 1) => {
    const next = beside(versions, chosen?.number, by);
    return next && (() => choose(next.current ? undefined : next.number));
  };
  useKey('[', step(-1), { held: true });
  useKey(']', step(1), { held: true });
  const marked = chosen?.id ?? versions.find(({ current }) => current)?.id;
  useEffect(() => {
    const item = [...(list.current?.children ?? [])].find((each) => each.getAttribute('data-version') === marked);
    const strip = list.current;
    if (strip && item instanceof HTMLElement) strip.scrollLeft = item.offsetLeft - (strip.clientWidth - item.clientWidth) / 2;
  }, [marked, versions.length]);
  const now = versions.find(({ current }) => current) ?? versions.at(-1);
  const one = chosen && chosen !== now ? chosen : beside(versions, now?.number, -1) ?? beside(versions, now?.number, 1);
  const other = now;
  const compared = one && other && `/s/${session.id}/compare?a=${one.id}&b=${other.id}`;
  const [, go] = useLocation();
  useKey('c', compared ? () => go(compared) : undefined);
  useAct(compared && 'Compare two versions', () => compared && go(compared));
  const { older, isReading } = useOlderVersions(session.id);
  const [named] = useChosen();
  const oldest = versions[0]?.number ?? 0;
  const isBefore = named !== undefined && named > 0 && named < oldest;
  const read = useRef(older);
  read.current = older;
  useEffect(() => {
    if (isBefore) read.current?.(); // the address names one that was not read yet
  }, [isBefore, oldest]);
  const first = useRef('');
  const more = () => {
    first.current = versions[0]?.id ?? '';
    older?.();
  };
  const hasOlder = older !== undefined;
  useEffect(() => {
    // its button has gone: what is shown now begins before what began it
    const before = [...(list.current?.children ?? [])].find((each) => each.getAttribute('data-version') === first.current)?.previousElementSibling;
    if (!hasOlder && document.activeElement === document.body) before?.querySelector('button')?.focus();
  }, [hasOlder]);
  const isOnly = versions.length === 1 && !older;
  if (versions.length === 0 || (isOnly && !chosen && restored === undefined)) return <AskAgain what="The versions" found={found} />;
  const leave = () => {
    if (part.current?.contains(document.activeElement)) list.current?.querySelector<HTMLElement>('[aria-pressed=true]')?.focus({ preventScroll: true });
    choose(undefined);
  };
  const restore = async (version: VersionView) => {
    setAsked(version.id);
    if (!(await send('rewind', { to: version.id }))) return;
    choose(undefined);
    setPutBack(version.number);
  };
  const undo = async () => {
    setAsked(UNDO);
    if (await send('rewind', { undo: true })) setPutBack(undefined);
  };
  return (
    <section ref={part} aria-labelledby="versions" className="space-y-3">
      <div className={isOnly ? 'sr-only' : 'flex min-h-9 items-center justify-between'}>
        <h2 id="versions" className="text-sm text-muted">
          {isOnly ? 'One version' : `${versions.at(-1)?.number} versions`}
        </h2>
        {compared && (
          <Link href={compared} className="inline-flex min-h-9 items-center gap-2 rounded-lg px-3 text-sm text-muted hover:bg-sunken hover:text-text" title={`Version ${one?.number} beside version ${other?.number} (C)`}>
            <Columns2 aria-hidden className="size-4" /> Compare
          </Link>
        )}
      </div>
      {!isOnly && (
        <ul ref={list} className="relative -mx-1 -mt-1 flex gap-3 overflow-x-auto p-1 pb-2">
          {older && (
            <li className="grid shrink-0 place-items-center">
              <Button kind="quiet" className="text-sm" aria-disabled={isReading} onClick={more}>
                Show older
              </Button>
            </li>
          )}
          {versions.map((each) => (
            <li key={each.id} data-version={each.id} className="shrink-0">
              <Thumbnail version={each} isChosen={each.id === chosen?.id} choose={() => choose(each.id === chosen?.id ? undefined : each.number)} />
            </li>
          ))}
        </ul>
      )}
      {chosen && (
        <Chosen
          key={chosen.id}
          session={session}
          version={chosen}
          restore={() => restore(chosen)}
          leave={leave}
          lookAtFiles={lookAtFiles}
          busy={busy}
          refused={asked === chosen.id ? refused?.problem : undefined}
        />
      )}
      <AskAgain what="The versions" found={found} />
      <p role="status" className={restored === undefined ? 'sr-only' : 'flex flex-wrap items-center gap-x-3 text-sm text-muted'}>
        {restored !== undefined && (
          <>
            This is version {restored} again, with what was said and written by then.
            <button type="button" className="min-h-8 text-accent underline underline-offset-4" disabled={busy} onClick={() => void undo()}>
              Undo
            </button>
          </>
        )}
      </p>
      {asked === UNDO && <Said problem={refused?.problem} />}
    </section>
  );
}

/** The version that there is, while it is the only one: a strip of one would only take room. */
export function OnlyVersion({ version: { number, starred, note }, isOpen, toggle }: { version: VersionView; isOpen: boolean; toggle: () => void }) {
  return (
    <button
      type="button"
      aria-pressed={isOpen}
      aria-label={[`Version ${number}`, note, starred && 'starred'].filter(Boolean).join(', ')}
      title="The version that there is: its note, its star, and another way from here"
      className="mt-1 inline-flex min-h-6 shrink-0 items-center gap-1 rounded-md border border-line px-1.5 text-xs text-muted tabular-nums hover:border-line-strong hover:text-text aria-pressed:border-accent aria-pressed:text-accent"
      onClick={toggle}
    >
      <span className="before:content-['v']">{number}</span>
      {starred && <Star aria-hidden className="size-3 fill-current" />}
    </button>
  );
}

function Thumbnail({ version, isChosen, choose }: { version: VersionView; isChosen: boolean; choose: () => void }) {
  const [gone, setGone] = useState(false);
  const { number, asked, note, starred, current, undone } = version;
  const told = [`Version ${number}`, note || asked, starred && 'starred', current && 'shown now', undone && 'left by going back'];
  return (
    <button
      type="button"
      aria-pressed={isChosen}
      aria-label={told.filter(Boolean).join(', ')}
      title={asked}
      className="group/version block w-32 rounded-xl text-left"
      onClick={choose}
    >
      <span
        className={`relative grid aspect-video place-items-center overflow-hidden rounded-xl border bg-sunken group-aria-pressed/version:outline-2 group-aria-pressed/version:outline-offset-1 group-aria-pressed/version:outline-accent ${
          current ? 'border-accent' : 'border-line group-hover/version:border-line-strong'
        } ${undone ? 'border-dashed' : ''}`}
      >
        {!gone && (
          <img src={version.thumbnailUrl} alt="" loading="lazy" className={`size-full object-cover ${undone ? 'opacity-60' : ''}`} onError={() => setGone(true)} />
        )}
        {starred && (
          <span className="absolute top-1.5 right-1.5 grid size-5 place-items-center rounded-md bg-panel text-accent">
            <Star aria-hidden className="size-3 fill-current" />
          </span>
        )}
      </span>
      <span className="mt-1 flex items-baseline gap-1.5 px-0.5 text-xs">
        <span className={`tabular-nums before:content-['v'] ${current ? 'font-medium text-accent' : 'text-muted'}`}>{`${number} `}</span>
        <span className="min-w-0 truncate text-muted">{note || asked}</span>
      </span>
    </button>
  );
}

interface ChosenProps {
  session: SessionView;
  version: VersionView;
  restore: () => Promise<void>;
  leave: () => void;
  lookAtFiles: () => void;
  busy: boolean;
  refused: Problem | undefined;
}

function Chosen({ session, version, restore, leave, lookAtFiles, busy, refused }: ChosenProps) {
  const label = useVersionLabel(session.id);
  const [, go] = useLocation();
  const card = useRef<HTMLDivElement>(null);
  useEscape(leave, card);
  useEffect(() => {
    card.current?.scrollIntoView({ block: 'nearest' });
  }, [refused]); // what is said in it moves the rest
  const fork = useMutation<Schemas['SessionCreated'], Problem>({
    mutationFn: () => command(session, 'fork', { at: version.id }) as Promise<Schemas['SessionCreated']>,
    onSuccess: ({ sessionId }) => go(`/s/${sessionId}`),
  });
  const starred = label.isPending && label.variables.starred !== undefined ? label.variables.starred : version.starred;
  return (
    <div ref={card} className="card scroll-mb-4 space-y-3 p-4">
      <div className="flex items-center gap-1">
        <h3 className="mr-auto font-semibold">
          Version {version.number}
          <span className="ml-2 text-sm font-normal text-muted">{version.current ? 'shown now' : when(version.createdAt)}</span>
        </h3>
        <button
          type="button"
          aria-pressed={starred}
          aria-label="Star it"
          title={starred ? 'Take the star away' : 'Give it a star'}
          className={`grid size-9 place-items-center rounded-lg hover:bg-sunken ${starred ? 'text-accent' : 'text-muted hover:text-text'}`}
          onClick={() => label.mutate({ id: version.id, starred: !starred })}
        >
          <Star aria-hidden className={`size-4 ${starred ? 'fill-current' : ''}`} />
        </button>
        <button
          type="button"
          aria-label="Back to what is shown now"
          title="Back to what is shown now (Esc)"
          className="grid size-9 place-items-center rounded-lg text-muted hover:bg-sunken hover:text-text"
          onClick={leave}
        >
          <X aria-hidden className="size-4" />
        </button>
      </div>
      <p className="line-clamp-4 text-sm wrap-anywhere whitespace-pre-wrap">{version.asked}</p>
      <Note
        version={version}
        problem={label.error}
        save={(note) => label.mutateAsync({ id: version.id, note }).then(() => true, () => false)}
        leave={() => label.variables?.note !== undefined && label.reset()}
      />
      <Said problem={label.error ?? fork.error ?? refused} except={NOTE} />
      <div className="flex flex-wrap gap-2">
        {!version.current && (
          <Button onClick={() => void restore()} disabled={busy} title={session.state.owes ? 'Stops what is being made; nothing is lost' : 'What was said, the files, the plan and the video of then; nothing is lost'}>
            <History aria-hidden className="size-4" /> Go back to it
          </Button>
        )}
        <Button kind="quiet" disabled={fork.isPending} onClick={() => fork.mutate()} title="Another session begins here; this one stays as it is">
          <GitFork aria-hidden className="size-4" /> Go another way from here
        </Button>
        {version.checkpointId && <FilesButton name="Its files" look={lookAtFiles} />}
        {version.checkpointId && (
          <a
            href={`/v1/sessions/${session.id}/source.zip?checkpoint=${version.checkpointId}`}
            download
            title="A zip of its files: npm install and npx vite run it"
            className="inline-flex min-h-10 items-center gap-2 rounded-xl px-3 py-2 text-sm text-muted hover:bg-sunken hover:text-text"
          >
            <FolderDown aria-hidden className="size-4" /> Its source
          </a>
        )}
        <Share sessionId={session.id} job={version.jobId} what={`version ${version.number}`} />
      </div>
      <Differs sessionId={session.id} version={version} />
    </div>
  );
}

interface NoteProps {
  version: VersionView;
  problem: Problem | null;
  save: (note: string) => Promise<boolean>;
  leave: () => void;
}

function Note({ version, problem, save, leave: left }: NoteProps) {
  const [draft, setDraft, opener] = useDraft();
  const { marks, words } = useAnswered({ problem, name: 'note', value: draft });
  const form = useRef<HTMLFormElement>(null);
  useFirstWrong(form, problem);
  const leave = () => {
    setDraft(undefined);
    left();
  };
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    if (await save(draft ?? '')) leave();
  };
  if (draft === undefined)
    return (
      <button
        ref={opener}
        type="button"
        className="min-h-7 max-w-full rounded-lg text-left text-sm text-muted wrap-anywhere underline-offset-4 hover:text-text hover:underline"
        onClick={() => setDraft(version.note)}
      >
        {version.note ? (
          <>
            “{version.note}”<span className="sr-only">: change the note</span>
          </>
        ) : (
          'Add a note'
        )}
      </button>
    );
  return (
    <form ref={form} onSubmit={(event) => void submit(event)}>
      <div className="flex gap-2">
        <input
          aria-label={`Note on version ${version.number}`}
          className="field min-w-0 flex-1 py-1.5 text-sm"
          autoFocus
          value={draft}
          onChange={({ target }) => setDraft(target.value)}
          onKeyDown={(event) => {
            if (event.key !== 'Escape') return;
            event.preventDefault();
            leave();
          }}
          {...marks}
        />
        <Button kind="quiet" type="submit">
          Save
        </Button>
      </div>
      {words}
    </form>
  );
}

/** How its files differ from those of the version before; read when somebody wants to know. */
function Differs({ sessionId, version }: { sessionId: string; version: VersionView }) {
  const [open, setOpen] = useState(false);
  const found = useQuery<Schemas['VersionDiff'], Problem>({
    queryKey: ['diff', sessionId, version.id],
    queryFn: () => ask(`/v1/sessions/${sessionId}/versions/${version.id}/diff`),
    enabled: open,
    staleTime: Infinity,
  });
  if (version.number === 1 || version.checkpointId === null) return null;
  return (
    <details className="text-sm" onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary className="min-h-6 cursor-pointer text-muted">What changed in the files</summary>
      <div className="mt-2 space-y-2">
        <Said problem={found.error} />
        {found.isPending && open && <p className="text-muted">One moment…</p>}
        {found.data?.files.length === 0 && <p className="text-muted">Nothing.</p>}
        {found.data?.files.map((file) => (
          <details key={file.path} className="rounded-lg border border-line">
            <summary className="flex min-h-8 cursor-pointer flex-wrap gap-x-3 px-2.5 py-1.5">
              <span className="min-w-0 wrap-anywhere">{file.path}</span>
              <span className="ml-auto text-muted tabular-nums">{counted(file)}</span>
            </summary>
            {file.diff ? (
              <pre className="max-h-80 overflow-auto border-t border-line py-1.5 text-xs leading-relaxed" tabIndex={0} aria-label={`Changes of ${file.path}`}>
                {lines(file.diff).map(({ kind, text }, at) => (
                  <span key={at} className={`block px-2.5 ${KINDS[kind]}`}>
                    {text || ' '}
                  </span>
                ))}
              </pre>
            ) : (
              <p className="border-t border-line px-2.5 py-1.5 text-muted">No text, or too much to be told apart here.</p>
            )}
          </details>
        ))}
        {Boolean(found.data?.leftOut) && <p className="text-muted">And {found.data?.leftOut} files more.</p>}
      </div>
    </details>
  );
}

const KINDS = { place: 'text-muted', came: 'text-good', went: 'text-bad', stays: '' };

function counted({ change, added, removed }: Schemas['FileDiff']): string {
  const what = change === 'changed' ? '' : change === 'added' ? 'new' : 'gone';
  return [what, added && `+${added}`, removed && `−${removed}`].filter(Boolean).join(' ');
}

function when(at: string): string {
  const time = new Date(at);
  const isToday = time.toDateString() === new Date(clock.now()).toDateString();
  return time.toLocaleString(undefined, isToday ? { timeStyle: 'short' } : { dateStyle: 'medium', timeStyle: 'short' });
}
