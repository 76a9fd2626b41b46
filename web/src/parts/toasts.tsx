import { useQueryClient } from '@tanstack/react-query';
import { Undo2, X } from 'lucide-react';
import { useEffect, useRef, useState, useSyncExternalStore } from 'react';
import { Link, useLocation } from 'wouter';
import { composing, useComposing } from '../api/composing';
import { canUndo, type Deletion, deletions, useDeleted } from '../api/deleted';
import { refusalOf, uploads } from '../api/uploads';
import { Button } from './button';
import { focusOn } from './card';
import { Key, TYPED_INTO } from './keys';

const STAYS_MS = 15_000;
const FRAMES = 60;
const TOAST = 'card overflow-hidden shadow-lg shadow-black/10';
const LINE = 'flex items-center gap-2 py-1.5 pr-1.5 pl-4 text-sm';
const ACT = 'inline-flex min-h-10 shrink-0 items-center gap-2 rounded-xl px-3 font-medium text-accent hover:bg-accent-ground disabled:opacity-60';

/**
 * What happened that is not on the screen: what was just deleted, with the way back, which stays while somebody is at it, by
 * pointer or by keyboard; and what was not taken while one was elsewhere: files, or the prompt that one had sent.
 */
export function Toasts() {
  const shown = useDeleted();
  const untold = useSyncExternalStore(uploads.watch, () => uploads.list).filter(({ isUntold }) => isUntold);
  const said = useSaid();
  const { prompt, problem, isUntold } = useComposing();
  const [path] = useLocation();
  useEffect(() => {
    uploads.told(path);
    if (path === '/') composing.told();
  }, [path]);
  const client = useQueryClient();
  const region = useRef<HTMLElement>(null);
  const [isHeld, setHeld] = useState(false);
  const isAway = useSyncExternalStore(watchAway, () => document.hidden);
  const isEmpty = shown.length === 0;
  useEffect(() => {
    if (isEmpty) setHeld(false);
  }, [isEmpty]);
  const undo = async ({ id, beside }: Deletion) => {
    const wasHere = region.current?.contains(document.activeElement);
    if ((await deletions.undo(id, client)) && wasHere) whenShown(id, () => focusOn(id), () => focusOn(beside)); // prettier-ignore
  };
  const leave = ({ id, beside }: Deletion) => {
    const wasHere = region.current?.contains(document.activeElement);
    deletions.leave(id);
    if (wasHere) focusOn(beside);
  };
  const last = useRef<() => void>(undefined);
  last.current = () => {
    const newest = shown.findLast(canUndo);
    if (newest) void undo(newest);
  };
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      const { target } = event;
      const isUndo = event.key.toLowerCase() === 'z' && (event.ctrlKey || event.metaKey) && !event.shiftKey && !event.altKey;
      if (isUndo && !(target instanceof Element && target.matches(TYPED_INTO))) last.current?.();
    };
    document.addEventListener('keydown', pressed);
    return () => document.removeEventListener('keydown', pressed);
  }, []);
  return (
    <>
      <p role="status" className="sr-only">
        {said}
      </p>
      <div className="toasts pointer-events-none fixed inset-x-4 bottom-4 z-20 mx-auto max-w-md space-y-2 *:pointer-events-auto">
        <section aria-label="Not begun" hidden={!isUntold} className="space-y-2">
          {isUntold && problem && <Untold name={prompt} words={`${short(prompt)}: ${problem.message}`} at="/" leave={() => composing.told()} />}
        </section>
        <section aria-label="Not stored" hidden={untold.length === 0} className="space-y-2">
          {untold.map((each) => (
            <Untold key={each.key} name={each.name} words={refusalOf(each)} at={each.at} leave={() => uploads.told(each.key)} />
          ))}
        </section>
        <section
          ref={region}
          aria-label="Deleted"
          hidden={isEmpty}
          className="space-y-2"
          onPointerEnter={() => setHeld(true)}
          onPointerLeave={({ pointerType }) => pointerType === 'mouse' && setHeld(false)}
          onFocus={() => setHeld(true)}
          onBlur={({ currentTarget, relatedTarget }) => !currentTarget.contains(relatedTarget) && setHeld(false)}
        >
          {shown.map((each) => (
            <Toast key={each.id} deletion={each} isHeld={isHeld || isAway} undo={() => void undo(each)} leave={() => leave(each)} />
          ))}
        </section>
      </div>
    </>
  );
}

/** The last thing that happened, in words: a deletion, or a file that was stored while one was elsewhere. */
function useSaid(): string {
  const deleted = useSyncExternalStore(deletions.watch, () => deletions.said);
  const [said, setSaid] = useState('');
  useEffect(() => setSaid(deleted), [deleted]);
  useEffect(() => uploads.hear(({ asset, isElsewhere }) => asset && isElsewhere && setSaid(`${asset.name} is stored`)), []);
  return said;
}

/** Something that was not taken, why, and the way to where it is kept. */
function Untold({ name, words, at, leave }: { name: string; words: string; at: string; leave: () => void }) {
  return (
    <div className={TOAST} onKeyDown={(event) => event.key === 'Escape' && (event.preventDefault(), leave())}>
      <div className={LINE}>
        <p role="alert" className="min-w-0 flex-1 py-1.5 wrap-anywhere">
          {words}
        </p>
        <Link href={at} className={ACT}>
          Look at it
        </Link>
        <Button kind="quiet" aria-label={`Leave it: ${short(name)}`} className="shrink-0 px-2.5" onClick={leave}>
          <X aria-hidden className="size-4" />
        </Button>
      </div>
    </div>
  );
}

function watchAway(told: () => void): () => void {
  document.addEventListener('visibilitychange', told);
  return () => document.removeEventListener('visibilitychange', told);
}

interface Props {
  deletion: Deletion;
  isHeld: boolean;
  undo: () => void;
  leave: () => void;
}

function Toast({ deletion, isHeld, undo, leave }: Props) {
  const { title, problem, isComingBack, byKeys } = deletion;
  const isStaying = isHeld || Boolean(problem) || Boolean(isComingBack);
  const left = useRef(STAYS_MS);
  const now = useRef(leave);
  now.current = leave;
  useEffect(() => {
    if (isStaying) return;
    const began = performance.now();
    const timer = setTimeout(() => now.current(), left.current);
    return () => {
      clearTimeout(timer);
      left.current = Math.max(STAYS_MS / 3, left.current - (performance.now() - began)); // whoever was at it has time to come back
    };
  }, [isStaying]);
  return (
    <div className={TOAST} onKeyDown={(event) => event.key === 'Escape' && (event.preventDefault(), leave())}>
      <div className={LINE}>
        <p className="min-w-0 flex-1 py-1.5" role={problem ? 'alert' : undefined}>
          {problem ?? (
            <>
              Deleted: <span className="text-muted wrap-anywhere">{short(title)}</span>
            </>
          )}
        </p>
        {(canUndo(deletion) || isComingBack) && (
          <button
            type="button"
            className={ACT}
            autoFocus={byKeys ?? false}
            disabled={isComingBack}
            onClick={undo}
          >
            <Undo2 aria-hidden className="size-4" /> Undo <Key name="Ctrl Z" />
          </button>
        )}
        <Button kind="quiet" aria-label={`Leave it: ${short(title)}`} className="shrink-0 px-2.5" onClick={leave}>
          <X aria-hidden className="size-4" />
        </Button>
      </div>
      {!problem && (
        <div aria-hidden className="h-0.5 motion-reduce:hidden">
          <div className={`running-out h-full bg-accent ${isStaying ? 'held' : ''}`} style={{ animationDuration: `${STAYS_MS}ms` }} />
        </div>
      )}
    </div>
  );
}

function short(title: string): string {
  return title.length > 60 ? `${title.slice(0, 59)}…` : title;
}

/** Do something once a session is among the cards, or something else where it does not come there. */
function whenShown(id: string, then: () => void, orElse: () => void, frames = FRAMES): void {
  if (document.querySelector(`[data-session="${CSS.escape(id)}"]`)) then();
  else if (frames === 0) orElse();
  else requestAnimationFrame(() => whenShown(id, then, orElse, frames - 1));
}
