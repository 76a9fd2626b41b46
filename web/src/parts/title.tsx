import { Pencil, Pin } from 'lucide-react';
import { type FormEvent, type ReactNode, useState } from 'react';
import { restOf } from '../../node/src/fields';
import { useAct } from '../api/acts';
import type { Problem, SessionView } from '../api/client';
import { useLabel } from '../api/hooks';
import { Button } from './button';
import { useDraft } from './draft';
import { useAnswered } from './field';
import { Said } from './said';

export const TITLE = ['title'];

/** What an animation is called: by its prompt, until somebody finds a better name. */
export function titleOf({ title, state }: SessionView): string {
  return title ?? state.prompt.split('\n')[0] ?? '';
}

export function Title({ session, children }: { session: SessionView; children?: ReactNode }) {
  const [draft, setDraft, pencil] = useDraft();
  const label = useLabel(session.id);
  const [notPinned, tell] = useState<Problem | null>(null);
  const { marks, words } = useTitle(label.error, draft, 'title-said');
  const title = titleOf(session);
  useAct(draft === undefined && 'Change the title', () => setDraft(session.title ?? ''));
  const leave = () => {
    setDraft(undefined);
    label.reset();
  };
  const save = (event: FormEvent) => {
    event.preventDefault();
    if (!label.isPending) label.mutate({ title: draft ?? '' }, { onSuccess: leave });
  };
  if (draft !== undefined)
    return (
      <form onSubmit={save} onKeyDown={(event) => event.key === 'Escape' && (event.preventDefault(), leave())} className="w-full space-y-2">
        <h1 className="sr-only">{title}</h1>
        <div className="flex flex-wrap gap-2">
          <input
            aria-label="Title"
            className="field min-w-0 flex-1 basis-60 text-lg font-semibold"
            placeholder={session.state.prompt.split('\n')[0]}
            autoFocus
            value={draft}
            onChange={(event) => setDraft(event.target.value)}
            {...marks}
          />
          <Button kind="main" type="submit" disabled={label.isPending}>
            Save
          </Button>
          <Button onClick={leave}>Leave it</Button>
        </div>
        {words}
        <Said problem={label.error} id="title-said" except={TITLE} />
      </form>
    );
  const row = (
    <div className="flex min-w-0 items-start gap-1">
      <h1 className="mr-1 line-clamp-1 min-w-0 text-lg leading-8 font-semibold tracking-tight break-all lg:text-xl lg:leading-8" title={title.length > 60 ? title : undefined}>
        {title}
      </h1>
      <button
        ref={pencil}
        type="button"
        aria-label="Change the title"
        title="Change the title"
        className="grid size-8 shrink-0 place-items-center rounded-lg text-muted hover:bg-sunken hover:text-text"
        onClick={() => setDraft(session.title ?? '')}
      >
        <Pencil aria-hidden className="size-4" />
      </button>
      <PinButton session={session} label="Pin it" className="size-8" tell={tell} />
      {children}
    </div>
  );
  return (
    <div className="min-w-0 space-y-1">
      {row}
      <Said problem={notPinned} />
    </div>
  );
}

/** What was said of a title as it is typed; `said` is the id of what else was said. */
export function useTitle(problem: Problem | null, draft: string | undefined, said: string) {
  return useAnswered({ problem, name: 'title', value: draft, hint: restOf(problem, TITLE) && said });
}

interface PinProps {
  session: { id: string; pinned?: boolean };
  label: string;
  className: string;
  /** Is told why it was not done, and nothing once it is tried again. */
  tell: (problem: Problem | null) => void;
}

/** Keep something at hand: pinned ones stand before the others, and are not removed with those that nobody uses. */
export function PinButton({ session, label: said, className, tell }: PinProps) {
  const label = useLabel(session.id);
  const pinned = label.isPending ? label.variables.pinned : session.pinned;
  return (
    <button
      type="button"
      aria-pressed={Boolean(pinned)}
      aria-label={said}
      title={pinned ? 'Pinned: stands before the others' : 'Pin it'}
      className={`grid shrink-0 place-items-center rounded-lg hover:bg-sunken ${pinned ? 'text-accent' : 'text-muted hover:text-text'} ${className}`}
      onClick={() => {
        tell(null);
        label.mutate({ pinned: !pinned }, { onError: tell });
      }}
    >
      <Pin aria-hidden className={`size-4 ${pinned ? 'fill-current' : ''}`} />
    </button>
  );
}
