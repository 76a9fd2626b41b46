import { Trash2 } from 'lucide-react';
import type { ReactNode } from 'react';
import type { SessionView } from '../api/client';
import { type Final, useDeletion } from '../api/finals';
import { useDraft } from './draft';
import { Sure } from './sure';

interface Props {
  session: SessionView;
  final: Final;
  name: string;
  /** What it means beside that it is gone. */
  means?: string;
  deleted: () => void;
  /** What the button stands beside, as a picture alone; else it stands among others, and says what it does. */
  children?: (button: ReactNode) => ReactNode;
}

/** What deletes a final video, and below it, once it is pressed, what that means and whether one is sure. */
export function Deletion({ session, final, name, means, deleted, children }: Props) {
  const [asked, setAsked, opener] = useDraft();
  const deleting = useDeletion(session, final, deleted);
  const times = 1 + final.also.length;
  const leave = () => {
    deleting.reset();
    setAsked(undefined);
  };
  const button = asked === undefined && (
    <button
      ref={opener}
      type="button"
      aria-label={`Delete ${name}`}
      title="Delete"
      className="inline-flex min-h-10 shrink-0 items-center gap-2 rounded-xl px-3 py-2 text-sm text-muted hover:bg-sunken hover:text-text"
      onClick={() => setAsked('')}
    >
      <Trash2 aria-hidden className="size-4" /> {!children && `Delete ${name}`}
    </button>
  );
  return (
    <>
      {children ? children(button) : button}
      {asked !== undefined && (
        <Sure label={`Delete ${name}`} yes="Delete it" no="Keep it" problem={deleting.error} busy={deleting.isPending} act={() => deleting.mutate()} leave={leave}>
          {`${times > 1 ? `It was rendered ${times} times: all of them go for good` : 'It goes for good'}, and links to it show nothing any more. ${means ?? ''}`}
        </Sure>
      )}
    </>
  );
}
