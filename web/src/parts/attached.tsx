import { Paperclip, RotateCcw, X } from 'lucide-react';
import { useEffect, useRef } from 'react';
import { useSearchParams } from 'wouter';
import { ask, Problem, type Schemas } from '../api/client';
import { type Attached, composing } from '../api/composing';
import { refusalOf, type Upload, uploads } from '../api/uploads';

/** What names a file in the page's address. */
const NAMED = 'asset';
const SMALL = 'grid size-6 shrink-0 place-items-center rounded-md hover:bg-line';

/** Have the files go with a prompt that the page's address names; of one that an animation has already, a copy goes. */
export function useNamed() {
  const [, setParams] = useSearchParams();
  useEffect(() => {
    let isOpen = true;
    const bring = async (named: string) => {
      const asset = await ask<Schemas['AssetView']>(`/v1/assets/${encodeURIComponent(named)}`);
      if (!isOpen) return;
      if (!asset.sessionId) return composing.name(asset);
      const file = await ask<Blob>(`${asset.fileUrl}?here=true`, { as: 'blob' });
      if (!isOpen) return;
      composing.attach([new File([file], asset.name, { type: asset.mediaType })]);
      setParams((now) => without(now, named), { replace: true }); // or a reload would bring another copy
    };
    for (const named of new URLSearchParams(window.location.search).getAll(NAMED))
      bring(named).catch((problem: unknown) => {
        if (!(problem instanceof Problem)) throw problem; // else it was deleted since the address was made
      });
    return () => {
      isOpen = false;
    };
  }, []);
}

function without(params: URLSearchParams, named: string): URLSearchParams {
  const left = new URLSearchParams(params);
  left.delete(NAMED, named);
  return left;
}

export function Attach() {
  const input = useRef<HTMLInputElement>(null);
  return (
    <>
      <button
        type="button"
        aria-label="Add files"
        title="Pictures, films and sounds: choose, drop or paste"
        className="grid size-10 place-items-center rounded-xl text-muted hover:bg-sunken hover:text-text"
        onClick={() => input.current?.click()}
      >
        <Paperclip aria-hidden className="size-4" />
      </button>
      <input
        ref={input}
        type="file"
        multiple
        hidden
        accept="image/*,video/mp4,video/webm,audio/*"
        onChange={({ target }) => {
          composing.attach(target.files ?? []);
          target.value = '';
        }}
      />
    </>
  );
}

/** Files that go with a prompt: stored as soon as they are chosen, named by their ids when it is sent. */
export function Files({ files, going }: { files: readonly Attached[]; going: readonly Upload[] }) {
  if (files.length === 0) return null;
  return (
    <ul className="flex flex-wrap gap-2 px-2 pb-2" aria-label="Files">
      {files.map((each) => {
        const upload = going.find(({ key }) => key === each.key);
        const isRefused = upload?.state === 'refused';
        return (
          <li
            key={each.key}
            className={`flex max-w-full items-center gap-1.5 rounded-lg py-1 pr-1 pl-2.5 text-sm ${isRefused ? 'bg-bad-ground text-bad' : 'bg-sunken'}`}
          >
            <span className="min-w-0 wrap-anywhere" role={isRefused ? 'alert' : undefined}>
              {isRefused ? refusalOf(upload) : each.name}
            </span>
            {upload && !isRefused && <span className="text-muted tabular-nums">{Math.round(100 * upload.sent)} %</span>}
            {isRefused && !upload.isFinal && (
              <button type="button" aria-label={`Send ${each.name} again`} title="Again" className={SMALL} onClick={() => uploads.again(each.key)}>
                <RotateCcw aria-hidden className="size-3.5" />
              </button>
            )}
            <button type="button" aria-label={`Remove ${each.name}`} title="Remove" className={SMALL} onClick={() => composing.drop(each)}>
              <X aria-hidden className="size-3.5" />
            </button>
          </li>
        );
      })}
    </ul>
  );
}
