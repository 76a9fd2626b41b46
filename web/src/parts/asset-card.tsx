import { useMutation } from '@tanstack/react-query';
import { Download, Music, Plus, Trash2 } from 'lucide-react';
import { useState } from 'react';
import { Link } from 'wouter';
import { clock } from '../../node/src/clock';
import { ask, type Problem, type Schemas, unlessGone } from '../api/client';
import { ago } from '../api/dates';
import { bytes } from '../api/words';
import { useDraft } from './draft';
import { Sure } from './sure';

export type AssetView = Schemas['AssetView'];

const ICON = 'grid size-9 shrink-0 place-items-center rounded-lg text-muted hover:bg-sunken hover:text-text';

/** One uploaded file: how it looks or sounds, who uses it, and the ways to have it or be rid of it. */
export function AssetCard({ asset, removed }: { asset: AssetView; removed: () => Promise<unknown> }) {
  const [asked, setAsked, opener] = useDraft();
  const kind = asset.mediaType.split('/')[1] ?? '';
  return (
    <li className="card flex flex-col overflow-hidden">
      <Shown asset={asset} />
      <div className="flex flex-1 flex-col gap-1 p-4 pb-2">
        <h2 className="line-clamp-2 text-sm font-medium wrap-anywhere" title={asset.name}>
          {asset.name}
        </h2>
        <p className="text-sm text-muted tabular-nums">
          <span className="uppercase">{kind}</span> · {bytes(asset.sizeBytes)} · {ago(asset.createdAt, clock.now())}
        </p>
        <p className="text-sm text-muted">
          {asset.sessionId ? (
            <>
              Used by{' '}
              <Link href={`/s/${asset.sessionId}`} className="rounded-sm text-text underline underline-offset-4 wrap-anywhere">
                {asset.sessionTitle ?? 'an animation'}
              </Link>
            </>
          ) : (
            'Not used'
          )}
        </p>
        {asked === undefined ? (
          <div className="mt-auto flex items-center gap-1 pt-2">
            <Link
              href={`/?asset=${asset.id}`}
              className="mr-auto -ml-2.5 inline-flex min-h-9 items-center gap-2 rounded-lg px-2.5 text-sm text-muted hover:bg-sunken hover:text-text"
              aria-label={`Make something with ${asset.name}`}
              title={asset.sessionId ? 'A copy of it goes along' : undefined}
            >
              <Plus aria-hidden className="size-4" /> Make something
            </Link>
            <span className="flex-1" />
            <a className={ICON} href={`${asset.fileUrl}?download=true`} aria-label={`Download ${asset.name}`} title="Download">
              <Download aria-hidden className="size-4" />
            </a>
            <button ref={opener} type="button" className={ICON} aria-label={`Delete ${asset.name}`} title="Delete" onClick={() => setAsked('')}>
              <Trash2 aria-hidden className="size-4" />
            </button>
          </div>
        ) : (
          <Deleting asset={asset} removed={removed} leave={() => setAsked(undefined)} />
        )}
      </div>
    </li>
  );
}

function Shown({ asset }: { asset: AssetView }) {
  const [failed, setFailed] = useState(false);
  if (asset.mediaType.startsWith('audio/'))
    return (
      <div className="flex aspect-video flex-col items-center justify-end gap-4 bg-sunken p-3">
        <Music aria-hidden className="mb-auto mt-6 size-7 text-muted opacity-60" />
        <audio controls preload="none" src={asset.fileUrl} aria-label={asset.name} className="h-9 w-full" />
      </div>
    );
  if (asset.mediaType.startsWith('video/'))
    return <video controls muted playsInline preload="metadata" src={asset.fileUrl} aria-label={asset.name} className="aspect-video w-full bg-sunken object-contain" />;
  return (
    <a
      href={asset.fileUrl}
      target="_blank"
      rel="noreferrer"
      aria-label={`See ${asset.name}`}
      className="grid aspect-video min-h-0 grid-rows-[minmax(0,1fr)] place-items-center bg-sunken p-3 -outline-offset-2"
    >
      {failed ? (
        <span className="text-sm text-muted">It cannot be shown</span>
      ) : (
        <img src={asset.fileUrl} alt="" loading="lazy" className="size-full min-h-0 object-scale-down" onError={() => setFailed(true)} />
      )}
    </a>
  );
}

function Deleting({ asset, removed, leave }: { asset: AssetView; removed: () => Promise<unknown>; leave: () => void }) {
  const deleting = useMutation<void, Problem>({
    mutationFn: () => ask<void>(`/v1/assets/${asset.id}`, { method: 'DELETE' }).catch(unlessGone),
    onSuccess: removed,
  });
  const used = asset.sessionId && !deleting.error;
  const toIt = used && (
    <Link href={`/s/${asset.sessionId}`} className="inline-flex min-h-9 items-center rounded-lg px-3 font-medium hover:bg-line">
      To the animation
    </Link>
  );
  return (
    <Sure
      label={`Delete ${asset.name}`}
      yes="Delete it"
      no="Keep it"
      instead={toIt || undefined}
      problem={deleting.error}
      busy={deleting.isPending}
      act={() => deleting.mutate()}
      leave={leave}
    >
      {used
        ? 'An animation works with this file, so it stays for as long as that does: delete the animation to be rid of both.'
        : 'It is gone for good then. No animation uses it.'}
    </Sure>
  );
}
