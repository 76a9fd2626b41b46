import { useQueryClient } from '@tanstack/react-query';
import { WifiOff } from 'lucide-react';
import { useEffect, useSyncExternalStore } from 'react';
import { useLink } from '../api/hooks';
import { reach, readAgain, type Standing } from '../api/reach';

const WORDS: Record<Exclude<Standing, 'there'>, string> = {
  away: 'The server does not answer just now. This goes on by itself from where it was.',
  stopping: 'The server is being stopped, or started anew. What is under way goes on, and so does this page once it is back.',
};

/** Whether the server is there, as far as anything on the page knows. */
export function useStanding(): Standing {
  const link = useLink();
  const now = useSyncExternalStore(reach.watch, () => reach.now);
  return now === 'there' && link === 'lost' ? 'away' : now;
}

/** What is said wherever one is while the server is away; what could not be read meanwhile is read once it is back. */
export function Away({ isSilent }: { isSilent: boolean }) {
  const client = useQueryClient();
  const link = useLink();
  const found = useStanding();
  const standing = found === 'there' && isSilent ? 'away' : found;
  useEffect(() => reach.begin(), []);
  useEffect(() => reach.whenBack(() => void readAgain(client)), [client]);
  useEffect(() => {
    if (link === 'lost') void reach.check();
    if (link === 'live') void readAgain(client);
  }, [link, client]);
  if (standing === 'there') return null;
  return (
    <p role="status" className="mb-4 flex items-center gap-2 rounded-xl bg-bad-ground px-4 py-2.5 text-sm text-bad">
      <WifiOff aria-hidden className="size-4 shrink-0" /> {WORDS[standing]}
    </p>
  );
}
