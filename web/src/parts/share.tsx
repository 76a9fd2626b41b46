import { Link2 } from 'lucide-react';
import { useState } from 'react';
import { useAct } from '../api/acts';
import { commentWords, useLinks } from '../api/shares';
import { Button } from './button';
import { Shares } from './shares';

/** Links to a video, of one job, or else of what the session shows; and how much was said with any of the session's. */
export function Share({ sessionId, job, what = 'the video' }: { sessionId: string; job: string | undefined; what?: string }) {
  const [isOpen, setOpen] = useState(false);
  const said = commentWords(useLinks(sessionId).data?.shares ?? []);
  useAct(`Share ${what}`, () => setOpen(true));
  return (
    <>
      <Button kind="quiet" onClick={() => setOpen(true)} title="A link with which others see this video">
        <Link2 aria-hidden className="size-4" /> Share {said && <span className="text-accent">{said}</span>}
      </Button>
      {isOpen && <Shares sessionId={sessionId} job={job} close={() => setOpen(false)} />}
    </>
  );
}
