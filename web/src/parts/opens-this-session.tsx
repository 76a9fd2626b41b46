import { SlidersHorizontal } from 'lucide-react';
import { Suspense, useState } from 'react';
import { useAct } from '../api/acts';
import type { SessionView } from '../api/client';
import { Dialog } from './dialog';
import { late } from './late';

// read once somebody asks for it
const ThisSession = late(
  () => import('./this-session').then((module) => module.ThisSession),
  ({ close }, said) => (
    <Dialog title="This session" close={close}>
      {said}
    </Dialog>
  ),
);

/** The way to what holds for all of a session, and to its past. */
export function OpensThisSession({ session }: { session: SessionView }) {
  const [at, setAt] = useState<'top' | 'past'>();
  useAct('This session: what it used, its budget, what agents may do', () => setAt('top'));
  useAct('Go back to an earlier point', () => setAt('past'));
  return (
    <>
      <button
        type="button"
        aria-haspopup="dialog"
        aria-label="This session"
        title="What it used and may use, what agents may do, and where it can go back to"
        className="grid size-8 shrink-0 place-items-center rounded-lg text-muted hover:bg-sunken hover:text-text"
        onClick={() => setAt('top')}
      >
        <SlidersHorizontal aria-hidden className="size-4" />
      </button>
      {at && (
        <Suspense fallback={null}>
          <ThisSession session={session} isPastMeant={at === 'past'} close={() => setAt(undefined)} />
        </Suspense>
      )}
    </>
  );
}
