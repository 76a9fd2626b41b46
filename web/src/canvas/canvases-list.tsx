/** All canvases of one's own: to open, begin, rename and delete. */
import { Pencil, Plus, Trash2 } from 'lucide-react';
import { type FormEvent, useState } from 'react';
import { useLocation } from 'wouter';
import { Button } from '../parts/button';
import { CanvasRow } from '../parts/canvas-row';
import { Dialog } from '../parts/dialog';
import { useDraft } from '../parts/draft';
import { Sure } from '../parts/sure';
import type { Listed } from './canvases';
import type { Desk } from './desk';
import { LONGEST_NAME } from './layout';
import { useShared } from './shared';

const ICON = 'grid size-9 shrink-0 place-items-center rounded-lg text-muted hover:bg-sunken hover:text-text';

interface Props {
  desk: Desk;
  /** The one that is open. */
  current: string;
  close: () => void;
}

export function CanvasesList({ desk, current, close }: Props) {
  const { shared } = desk;
  const { isAway } = useShared(shared);
  const [, look] = useState(0);
  const list = shared.list();
  const [, go] = useLocation();
  const begin = () => {
    close();
    go(`/c/${shared.create()}`);
  };
  const rename = (id: string, name: string) => {
    desk.rename(id, name);
    look((times) => times + 1);
  };
  const remove = (id: string) => {
    desk.remove(id);
    if (id !== current) return;
    close();
    go(`/c/${shared.current()}`, { replace: true });
  };
  return (
    <Dialog title="Canvases" close={close}>
      <p className="mt-1 text-sm text-muted">
        {isAway ? 'The server does not answer: these are the ones that this browser knows of.' : 'They are yours in every browser. The animations on them are among your sessions.'}
      </p>
      <ul aria-label="Canvases" className="mt-4 space-y-1">
        {list.map((each) => (
          <Row key={each.id} canvas={each} isCurrent={each.id === current} close={close} remove={() => remove(each.id)} rename={(name) => rename(each.id, name)} />
        ))}
      </ul>
      <Button kind="main" className="mt-5" onClick={begin}>
        <Plus aria-hidden className="size-4" /> New canvas
      </Button>
    </Dialog>
  );
}

interface RowProps {
  canvas: Listed;
  isCurrent: boolean;
  close: () => void;
  rename: (name: string) => void;
  remove: () => void;
}

function Row({ canvas, isCurrent, close, rename, remove }: RowProps) {
  const { id, name } = canvas;
  const [draft, setDraft, pencil] = useDraft();
  const [asked, setAsked, bin] = useDraft();
  const save = (event: FormEvent) => {
    event.preventDefault();
    rename(draft ?? '');
    setDraft(undefined);
  };
  if (draft !== undefined)
    return (
      <li>
        <form onSubmit={save} className="flex flex-wrap gap-2" onKeyDown={(event) => event.key === 'Escape' && (event.preventDefault(), setDraft(undefined))}>
          <input aria-label="Name" className="field min-w-0 flex-1" maxLength={LONGEST_NAME} autoFocus value={draft} onChange={({ target }) => setDraft(target.value)} />
          <Button kind="main" type="submit">
            Save
          </Button>
        </form>
      </li>
    );
  if (asked !== undefined)
    return (
      <li>
        <Sure label={`Delete ${name}`} yes="Delete it" no="Keep it" problem={null} busy={false} act={remove} leave={() => setAsked(undefined)}>
          {name} goes for good. Its animations stay among your sessions.
        </Sure>
      </li>
    );
  return (
    <li className="flex items-center gap-1">
      <CanvasRow canvas={canvas} href={`/c/${id}`} isCurrent={isCurrent} open={close} />
      <button ref={pencil} type="button" className={ICON} aria-label={`Rename ${name}`} title="Rename" onClick={() => setDraft(name)}>
        <Pencil aria-hidden className="size-4" />
      </button>
      <button ref={bin} type="button" className={ICON} aria-label={`Delete ${name}`} title="Delete" onClick={() => setAsked('')}>
        <Trash2 aria-hidden className="size-4" />
      </button>
    </li>
  );
}
