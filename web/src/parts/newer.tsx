import { RefreshCw } from 'lucide-react';
import { useEffect, useRef, useSyncExternalStore } from 'react';
import { build } from '../api/build';
import { useLink } from '../api/hooks';
import { reach } from '../api/reach';

/** That the server has another build of the page, looked for once it was away, and as somebody comes back to this. A part that is missed says it in its own place. */
export function Newer() {
  const isSaid = useSyncExternalStore(build.watch, () => build.isReplaced && build.missed === 0);
  const link = useLink();
  const wasLost = useRef(false);
  useEffect(() => reach.whenBack(() => void build.look()), []);
  useEffect(() => {
    const seen = () => void (document.hidden || build.look());
    document.addEventListener('visibilitychange', seen);
    return () => document.removeEventListener('visibilitychange', seen);
  }, []);
  useEffect(() => {
    if (link === 'lost') wasLost.current = true;
    if (link !== 'live' || !wasLost.current) return;
    wasLost.current = false;
    void build.look(); // it was away for so short a time that nobody saw it
  }, [link]);
  if (!isSaid) return null;
  return (
    <div role="status" className="mb-4 flex flex-wrap items-center gap-x-2 rounded-xl bg-sunken py-1 pr-2 pl-4 text-sm text-muted">
      <RefreshCw aria-hidden className="size-4 shrink-0" />
      <p className="min-w-0 flex-1 py-1.5">A newer version of this page is here. This one goes on as it is.</p>
      <button type="button" className="min-h-9 rounded-lg px-2.5 font-medium text-accent hover:bg-accent-ground" onClick={() => window.location.reload()}>
        Load it
      </button>
    </div>
  );
}
