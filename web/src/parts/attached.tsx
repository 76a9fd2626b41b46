import { Paperclip, X } from 'lucide-react';
import { useEffect, useRef, useState } from 'react';
import { ask, Problem, problemOf, type Schemas } from '../api/client';

interface Attached {
  name: string;
  key: number;
  id?: string;
  problem?: string;
  /** Whether it was there before, and stays when it is taken out here. */
  stays?: boolean;
}

let keys = 0;

/** Files that go with a prompt: stored as soon as they are chosen, named by their ids when it is sent. */
export function useFiles() {
  const [list, setList] = useState<Attached[]>([]);
  const put = (key: number, found: Partial<Attached>) =>
    setList((before) => before.map((each) => (each.key === key ? { ...each, ...found } : each)));
  useEffect(() => {
    let isOpen = true;
    for (const named of new URLSearchParams(window.location.search).getAll('asset'))
      ask<Schemas['AssetView']>(`/v1/assets/${encodeURIComponent(named)}`).then(
        ({ id, name }) => isOpen && setList((before) => [...before, { key: (keys += 1), name, id, stays: true }]),
        () => undefined, // it was deleted since the address was made
      );
    return () => {
      isOpen = false;
    };
  }, []);
  return {
    list,
    ids: list.flatMap((each) => each.id ?? []),
    isBusy: list.some((each) => !each.id && !each.problem),
    add(chosen: FileList) {
      for (const file of chosen) {
        const key = (keys += 1);
        setList((before) => [...before, { name: file.name, key }]);
        stored(file).then(
          ({ id }) => put(key, { id }),
          (problem: Problem) => put(key, { problem: problem.message }),
        );
      }
    },
    remove({ key, id, stays }: Attached) {
      setList((before) => before.filter((each) => each.key !== key));
      if (id && !stays) ask(`/v1/assets/${id}`, { method: 'DELETE' }).catch(() => undefined); // it takes room, and nothing else
    },
  };
}

export async function stored(file: File): Promise<Schemas['AssetView']> {
  const body = new FormData();
  body.append('file', file);
  const response = await fetch('/v1/assets', { method: 'POST', credentials: 'same-origin', body }).catch(() => {
    throw new Problem(0, 'UNREACHABLE', 'The server does not answer. Add it again in a moment.');
  });
  if (!response.ok) throw await problemOf(response);
  return (await response.json()) as Schemas['AssetView'];
}

type Held = ReturnType<typeof useFiles>;

export function Attach({ files }: { files: Held }) {
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
          if (target.files) files.add(target.files);
          target.value = '';
        }}
      />
    </>
  );
}

export function Files({ files }: { files: Held }) {
  if (files.list.length === 0) return null;
  return (
    <ul className="flex flex-wrap gap-2 px-2 pb-2" aria-label="Files">
      {files.list.map((each) => (
        <li
          key={each.key}
          className={`flex max-w-full items-center gap-1.5 rounded-lg py-1 pr-1 pl-2.5 text-sm ${each.problem ? 'bg-bad-ground text-bad' : 'bg-sunken'}`}
        >
          <span className="min-w-0 wrap-anywhere" role={each.problem ? 'alert' : undefined}>
            {each.name}
            {each.problem ? `: ${each.problem}` : each.id ? '' : ' …'}
          </span>
          <button
            type="button"
            aria-label={`Remove ${each.name}`}
            className="grid size-6 shrink-0 place-items-center rounded-md hover:bg-line"
            onClick={() => files.remove(each)}
          >
            <X aria-hidden className="size-3.5" />
          </button>
        </li>
      ))}
    </ul>
  );
}
