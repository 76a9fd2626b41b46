import { useQuery } from '@tanstack/react-query';
import { ExternalLink, FileCode } from 'lucide-react';
import { useMemo, useState } from 'react';
import { ask, Problem } from '../api/client';
import { fileAddress } from '../api/files';
import { type Kind, piecesOf } from '../api/tokens';
import { Said } from './said';

/** How soon a file that was not saved yet is looked for again. */
const AGAIN_MS = 4_000;
export const MOST_CHARS = 40_000;
export const PICTURE = /\.(?:avif|gif|jpe?g|png|webp)$/i;
const COLOURS: Record<Kind, string> = { comment: 'text-muted italic', text: 'text-good', word: 'text-accent', number: 'text-accent' };

/** A file that was written: its name, and what is in it once somebody wants to see that. */
export function WrittenFile({ sessionId, path }: { sessionId: string; path: string }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <details onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary className="flex min-h-6 cursor-pointer items-center gap-2 underline-offset-4 hover:underline">
        <FileCode aria-hidden className="size-4 shrink-0 text-muted" />
        <span className="min-w-0 wrap-anywhere">{path}</span>
      </summary>
      {isOpen && (
        <div className="mt-1.5 mb-3 space-y-1">
          <Source address={fileAddress(sessionId, path)} path={path} className="max-h-72" />
        </div>
      )}
    </details>
  );
}

interface Props {
  address: string;
  path: string;
  /** Which bytes these are, where that is known: others are read anew. */
  hash?: string;
  /** How high it may become. */
  className: string;
}

/** What was saved of a file last; it is saved when a step is done, and what stands there by then is shown. */
export function Source({ address, path, hash = '', className }: Props) {
  const isPicture = PICTURE.test(path);
  const found = useQuery<string | null, Problem>({
    queryKey: ['file', hash || address, path],
    queryFn: async ({ signal }) => (isPicture ? null : textOf(await ask<Blob>(address, { as: 'blob', signal }))),
    gcTime: 0,
    retry: false,
    refetchOnWindowFocus: false,
    refetchInterval: ({ state: { error } }) => (error?.status === 404 ? AGAIN_MS : false),
  });
  if (found.error?.status === 404) return <p className="pl-6 text-muted">Not saved yet: it can be read here as soon as it is.</p>;
  if (found.error) return <Said problem={found.error} />;
  if (found.data === undefined) return <p className="pl-6 text-muted">One moment…</p>;
  return (
    <>
      {isPicture ? (
        <img src={address} alt={path} className={`checkered w-fit max-w-full rounded-lg object-contain ${className}`} />
      ) : (
        found.data !== null && (
          <pre aria-label={path} tabIndex={0} className={`overflow-auto rounded-lg bg-sunken p-3 text-xs ${className}`}>
            <Coloured text={found.data} path={path} />
          </pre>
        )
      )}
      <a className="inline-flex min-h-6 items-center gap-1.5 text-muted underline-offset-4 hover:text-text hover:underline" href={address} target="_blank" rel="noreferrer">
        <ExternalLink aria-hidden className="size-3.5" /> {found.data === null && !isPicture ? 'It is no text: open it' : 'Open it'}
        <span className="sr-only"> in another tab</span>
      </a>
    </>
  );
}

export function Coloured({ text, path }: { text: string; path: string }) {
  const pieces = useMemo(() => piecesOf(text, path), [text, path]);
  return pieces.map((each, at) =>
    typeof each === 'string' ? (
      each
    ) : (
      <span key={at} className={COLOURS[each.kind]}>
        {each.text}
      </span>
    ),
  );
}

/** The words of a file, as many as one reads; null where it has none. */
export async function textOf(file: Blob): Promise<string | null> {
  const text = await file.slice(0, MOST_CHARS * 4).text();
  if (text.includes('\0') || text.slice(0, 1000).includes('\uFFFD')) return null;
  return text.length > MOST_CHARS ? `${text.slice(0, MOST_CHARS)}\n…` : text;
}
