import { useInfiniteQuery, useQueryClient } from '@tanstack/react-query';
import { RotateCcw, Upload as UploadIcon, X } from 'lucide-react';
import { type ReactNode, useEffect, useRef, useState } from 'react';
import { ask, Problem, type Schemas } from '../api/client';
import { composing } from '../api/composing';
import { filesOf, refusalBelow, type Upload, uploads, useUploads } from '../api/uploads';
import { bytes } from '../api/words';
import { AssetCard, type AssetView } from '../parts/asset-card';
import { Bar } from '../parts/bar';
import { Button } from '../parts/button';
import { Said } from '../parts/said';

type Page = Schemas['OwnAssetPage'];

/** The address of this screen. */
const AT = '/assets';
const PAGE = 40;
const ASSETS = ['assets'];
const TYPED_INTO = 'input, textarea, select, [contenteditable]';

/** All pictures, films and sounds of one's own: chosen, dropped or pasted here, or with a prompt. */
export function Assets() {
  const client = useQueryClient();
  const [said, setSaid] = useState('');
  const input = useRef<HTMLInputElement>(null);
  const title = useRef<HTMLHeadingElement>(null);
  const found = useInfiniteQuery<Page, Problem, AssetView[], string[], string | null>({
    queryKey: ASSETS,
    initialPageParam: null,
    queryFn: ({ pageParam, signal }) => ask(`/v1/assets?limit=${PAGE}${pageParam ? `&before=${pageParam}` : ''}`, { signal }),
    getNextPageParam: (page) => page.next ?? undefined,
    select: ({ pages }) => pages.flatMap(({ assets }) => assets),
    staleTime: 0, // something may have been made with one since
  });
  const going = useUploads(AT);
  useEffect(
    () =>
      uploads.hear(({ upload, asset }) => {
        if (!asset) return;
        void client.invalidateQueries({ queryKey: ASSETS });
        if (upload.at === AT) setSaid(`${asset.name} is stored`);
      }),
    [client],
  );
  const isOver = useGiven((files) => uploads.add(files, { at: AT }));
  const removed = ({ id, name }: AssetView) => {
    composing.lost(id);
    setSaid(`${name} is deleted`);
    title.current?.focus(); // what had it is not there any more
    return client.invalidateQueries({ queryKey: ASSETS });
  };
  return (
    <>
      <title>Assets · koda</title>
      <div className="flex flex-wrap items-center gap-x-6 gap-y-3 pt-2">
        <div className="mr-auto min-w-0">
          <h1 ref={title} tabIndex={-1} className="w-fit text-xl font-semibold tracking-tight sm:text-2xl">
            Assets
          </h1>
          <p className="mt-1 max-w-prose text-sm text-muted">
            Pictures, films and sounds that you brought. What no animation uses is removed some days after it came.
          </p>
        </div>
        <Button kind="main" onClick={() => input.current?.click()}>
          <UploadIcon aria-hidden className="size-4" /> Upload
        </Button>
        <input
          ref={input}
          type="file"
          multiple
          hidden
          accept="image/*,video/mp4,video/webm,audio/*"
          onChange={({ target }) => {
            uploads.add(target.files ?? [], { at: AT });
            target.value = '';
          }}
        />
      </div>
      <p role="status" className="sr-only">
        {said}
      </p>
      {going.length > 0 && (
        <ul aria-label="On their way" className="mt-5 space-y-2">
          {going.map((each) => (
            <Going key={each.key} upload={each} again={() => uploads.again(each.key)} drop={() => uploads.drop(each.key)} />
          ))}
        </ul>
      )}
      <div className="mt-5 space-y-5">
        <Said problem={found.error} />
        {found.isPending && !found.error && <p className="py-16 text-muted">One moment…</p>}
        {found.data?.length === 0 && going.length === 0 && (
          <Dropped isOver={isOver}>
            <UploadIcon aria-hidden className="mx-auto size-7 text-muted opacity-60" />
            <p className="mt-4 font-medium">Drop pictures, films and sounds here, or paste them</p>
            <p className="mt-1 text-sm text-muted">PNG, JPEG, GIF, WebP, AVIF, MP4, WebM, MP3, WAV, Ogg, FLAC, M4A or AAC</p>
          </Dropped>
        )}
        {found.data && found.data.length > 0 && (
          <ul aria-label="Assets" className="grid grid-cols-1 gap-5 sm:grid-cols-2 lg:grid-cols-3 xl:grid-cols-4">
            {found.data.map((each) => (
              <AssetCard key={each.id} asset={each} removed={() => removed(each)} />
            ))}
          </ul>
        )}
        {found.hasNextPage && (
          <p className="text-center">
            <Button onClick={() => void found.fetchNextPage()} disabled={found.isFetchingNextPage}>
              Show more
            </Button>
          </p>
        )}
      </div>
      {isOver && Boolean(found.data?.length) && (
        <div className="pointer-events-none fixed inset-3 z-10 grid place-items-center rounded-2xl border-2 border-dashed border-accent bg-accent-ground/90 text-lg font-medium">
          Drop them to store them
        </div>
      )}
    </>
  );
}

function Dropped({ isOver, children }: { isOver: boolean; children: ReactNode }) {
  return (
    <div className={`rounded-2xl border-2 border-dashed px-6 py-20 text-center ${isOver ? 'border-accent bg-accent-ground' : 'border-line'}`}>
      {children}
    </div>
  );
}

function Going({ upload, again, drop }: { upload: Upload; again: () => void; drop: () => void }) {
  const { name, size, sent, state, isFinal } = upload;
  const refused = state === 'refused';
  return (
    <li className={`card flex flex-wrap items-center gap-x-3 gap-y-2 px-4 py-2.5 text-sm ${refused ? 'border-bad' : ''}`}>
      <div className="min-w-0 flex-1 basis-52 space-y-1.5">
        <p className="flex justify-between gap-3">
          <span className="min-w-0 wrap-anywhere">{name}</span>
          <span className="shrink-0 text-muted tabular-nums">{bytes(size)}</span>
        </p>
        {refused ? (
          <p role="alert" className="text-bad wrap-anywhere">
            {refusalBelow(upload)}
          </p>
        ) : (
          <Bar label={`Sending ${name}`} percent={100 * sent} waits={sent === 1} />
        )}
      </div>
      <div className="ml-auto flex shrink-0 items-center">
        {refused && !isFinal && (
          <Button kind="quiet" aria-label={`Send ${name} again`} onClick={again}>
            <RotateCcw aria-hidden className="size-4" /> Again
          </Button>
        )}
        <Button kind="quiet" className="px-2.5" aria-label={refused ? `Forget ${name}` : `Stop ${name}`} onClick={drop}>
          <X aria-hidden className="size-4" />
        </Button>
      </div>
    </li>
  );
}

/** Take files that are dropped anywhere, or pasted where nothing is typed; returns whether some are held over the page. */
function useGiven(take: (files: File[]) => void): boolean {
  const [isOver, setOver] = useState(false);
  const now = useRef(take);
  now.current = take;
  useEffect(() => {
    const over = (event: DragEvent) => {
      if (!event.dataTransfer?.types.includes('Files')) return;
      event.preventDefault();
      event.dataTransfer.dropEffect = 'copy';
      setOver(true);
    };
    const left = ({ relatedTarget }: DragEvent) => relatedTarget === null && setOver(false);
    const dropped = (event: DragEvent) => {
      const files = filesOf(event.dataTransfer);
      if (files.length > 0) event.preventDefault();
      setOver(false);
      if (files.length > 0) now.current(files);
    };
    const pasted = (event: ClipboardEvent) => {
      const files = filesOf(event.clipboardData);
      if (files.length === 0 || (event.target instanceof Element && event.target.matches(TYPED_INTO))) return;
      event.preventDefault();
      now.current(files);
    };
    const heard = { dragover: over, dragleave: left, drop: dropped, paste: pasted };
    for (const [name, hears] of Object.entries(heard)) document.addEventListener(name, hears as EventListener);
    return () => {
      for (const [name, hears] of Object.entries(heard)) document.removeEventListener(name, hears as EventListener);
    };
  }, []);
  return isOver;
}
