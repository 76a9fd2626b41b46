import { useQuery } from '@tanstack/react-query';
import { ExternalLink, FileCode } from 'lucide-react';
import { useState } from 'react';
import { ask, Problem } from '../api/client';
import { Said } from './said';

/** How soon a file that was not saved yet is looked for again. */
const AGAIN_MS = 4_000;
const MOST_CHARS = 40_000;

/** A file that was written: its name, and what is in it once somebody wants to see that. */
export function WrittenFile({ sessionId, path }: { sessionId: string; path: string }) {
  const [isOpen, setOpen] = useState(false);
  const address = `/v1/sessions/${sessionId}/files/${path.split('/').map(encodeURIComponent).join('/')}`;
  return (
    <details onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary className="flex min-h-6 cursor-pointer items-center gap-2 underline-offset-4 hover:underline">
        <FileCode aria-hidden className="size-4 shrink-0 text-muted" />
        <span className="min-w-0 wrap-anywhere">{path}</span>
      </summary>
      {isOpen && <Inside address={address} path={path} />}
    </details>
  );
}

/** What was saved of a file last; it is saved when a step is done, and what stands there by then is shown. */
function Inside({ address, path }: { address: string; path: string }) {
  const found = useQuery<string | null, Problem>({
    queryKey: ['file', address],
    queryFn: async ({ signal }) => textOf(await ask<Blob>(address, { as: 'blob', signal })),
    gcTime: 0,
    retry: false,
    refetchOnWindowFocus: false,
    refetchInterval: ({ state: { error } }) => (error?.status === 404 ? AGAIN_MS : false),
  });
  if (found.error?.status === 404) return <p className="mt-1.5 mb-3 pl-6 text-muted">Not saved yet: it can be read here as soon as it is.</p>;
  if (found.error) return <Said problem={found.error} />;
  if (found.data === undefined) return <p className="mt-1.5 mb-3 pl-6 text-muted">One moment…</p>;
  return (
    <div className="mt-1.5 mb-3 space-y-1">
      {found.data !== null && (
        <pre aria-label={path} tabIndex={0} className="max-h-72 overflow-auto rounded-lg bg-sunken p-3 text-xs">
          {found.data}
        </pre>
      )}
      <a className="inline-flex min-h-6 items-center gap-1.5 text-muted underline-offset-4 hover:text-text hover:underline" href={address} target="_blank" rel="noreferrer">
        <ExternalLink aria-hidden className="size-3.5" /> {found.data === null ? 'It is no text: open it' : 'Open it'}
        <span className="sr-only"> in another tab</span>
      </a>
    </div>
  );
}

/** The words of a file, as many as one reads; null where it has none. */
async function textOf(file: Blob): Promise<string | null> {
  const text = await file.slice(0, MOST_CHARS * 4).text();
  if (text.includes('\0') || text.slice(0, 1000).includes('\uFFFD')) return null;
  return text.length > MOST_CHARS ? `${text.slice(0, MOST_CHARS)}\n…` : text;
}
