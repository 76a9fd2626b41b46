import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Download, FileUp, FolderDown, FolderUp, Pencil, Trash2 } from 'lucide-react';
import { type FormEvent, useEffect, useRef, useState } from 'react';
import { paced } from '../../node/src/pace';
import { ask, Problem, type Schemas } from '../api/client';
import { firstOf } from '../api/files';
import { follow } from '../api/following';
import { addressOf, type Box, boxFileAddress, pathIn } from '../api/sandboxes';
import { bytes } from '../api/words';
import { AskAgain } from './ask-again';
import { Button } from './button';
import { useDraft } from './draft';
import { Field, useFirstWrong } from './field';
import { Said } from './said';
import { Sure } from './sure';
import { Tree } from './tree';
import { Coloured, MOST_CHARS, PICTURE, textOf } from './written-file';

type FileView = Schemas['SandboxFile'];

/** What is larger is taken out rather than shown. */
const MOST_SHOWN_BYTES = 4e6;
const QUIET = 'inline-flex min-h-10 items-center gap-2 rounded-xl px-3 py-2 text-sm text-muted hover:bg-sunken hover:text-text';
/** However often something changes, it is read anew once in so long. */
const REREAD_MS = 500;
const NONE: readonly FileView[] = [];

/** The files of a sandbox: a tree of them, what is in one, and the ways in and out. */
export function BoxFiles({ box }: { box: Box }) {
  const client = useQueryClient();
  const key = ['box files', box.id];
  const found = useQuery<FileView[], Problem>({
    queryKey: key,
    queryFn: async ({ signal }) => {
      const { files } = await ask<Schemas['SandboxFiles']>(`${addressOf(box.id, 'files')}?recursive=true`, { signal });
      return files.filter(({ type }) => type === 'file');
    },
    staleTime: 0,
    retry: false,
  });
  const [chosen, choose] = useState('');
  const [said, say] = useState('');
  const heading = useRef<HTMLHeadingElement>(null);
  const reread = () => Promise.all([client.invalidateQueries({ queryKey: key }), client.invalidateQueries({ queryKey: ['box file', box.id] })]);
  useChanges(box, () => void reread());
  const files = found.data ?? NONE;
  const path = chosen || (firstOf(files, []) ?? '');
  const shown = files.find((each) => each.path === path);
  return (
    <div className="space-y-4 text-sm">
      <AskAgain what="The files" found={found} />
      {!found.data && !found.error && <p className="text-muted">One moment…</p>}
      <p role="status" className="sr-only">
        {said}
      </p>
      {found.data?.length === 0 && <p className="text-muted">There is no file yet.</p>}
      {files.length > 0 && (
        <div className="grid gap-x-6 gap-y-4 md:grid-cols-[minmax(11rem,1fr)_minmax(0,2.4fr)]">
          <div className="flex max-h-96 min-h-0 min-w-0 flex-col max-md:max-h-60">
            <Tree files={files} shown={path} read={choose} />
          </div>
          <div className="min-w-0 space-y-2">
            <h3 ref={heading} tabIndex={-1} className="font-medium wrap-anywhere" aria-live="polite">
              {path}
              {shown && <span className="ml-2 font-normal text-muted tabular-nums">{bytes(shown.sizeBytes)}</span>}
            </h3>
            {shown ? (
              <OneFile
                key={shown.path}
                box={box}
                file={shown}
                changed={(words) => {
                  say(words);
                  return reread();
                }}
                removed={() => {
                  say(`${shown.path} is removed`);
                  choose('');
                  heading.current?.focus({ preventScroll: true });
                  void reread();
                }}
              />
            ) : (
              <p className="text-muted">There is no such file any more.</p>
            )}
          </div>
        </div>
      )}
      <Ways box={box} reread={reread} say={say} />
    </div>
  );
}

/** Hear of changes while the page is seen. One that ends when nobody uses it is not followed: that would be a use. */
function useChanges({ id, unusedS }: Box, changed: () => void) {
  const now = useRef(changed);
  now.current = changed;
  useEffect(() => {
    if (unusedS) return;
    let following: AbortController | undefined;
    const told = paced(() => following?.signal.aborted || now.current(), REREAD_MS);
    const turn = () => {
      following?.abort();
      if (document.hidden) return;
      following = new AbortController();
      let isFirst = true;
      const heard = ({ data }: { data: string }) => {
        const { changes } = JSON.parse(data) as Schemas['FileChanges'];
        if (changes.length > 0) told();
      };
      const opened = () => {
        if (!isFirst) told(); // something may have changed in between
        isFirst = false;
      };
      void follow(addressOf(id, 'changes'), { heard, opened }, following.signal);
    };
    turn();
    document.addEventListener('visibilitychange', turn);
    return () => {
      document.removeEventListener('visibilitychange', turn);
      following?.abort();
    };
  }, [id, unusedS]);
}

interface OneProps {
  box: Box;
  file: FileView;
  changed: (words: string) => Promise<unknown>;
  removed: () => void;
}

function OneFile({ box, file: { path, sizeBytes }, changed, removed }: OneProps) {
  const address = boxFileAddress(box.id, path);
  const isPicture = PICTURE.test(path);
  const isLarge = sizeBytes > MOST_SHOWN_BYTES;
  const found = useQuery<Blob, Problem>({
    queryKey: ['box file', box.id, path],
    queryFn: ({ signal }) => ask(address, { as: 'blob', signal }),
    enabled: !isLarge,
    gcTime: 0,
    retry: false,
    refetchOnWindowFocus: false,
  });
  const text = useText(isPicture ? undefined : found.data);
  const [draft, setDraft, editor] = useDraft();
  const [asked, setAsked, opener] = useDraft();
  const removing = useMutation<void, Problem>({ mutationFn: () => ask(address, { method: 'DELETE' }), onSuccess: removed });
  if (draft !== undefined)
    return (
      <Editing
        address={address}
        path={path}
        text={draft}
        set={setDraft}
        saved={async () => {
          await changed(`${path} is saved`);
          setDraft(undefined);
        }}
        leave={() => setDraft(undefined)}
      />
    );
  const canEdit = typeof text === 'string' && text.length < MOST_CHARS;
  return (
    <>
      <Said problem={found.error} />
      {isLarge ? (
        <p className="text-muted">It is too large to be shown here.</p>
      ) : isPicture ? (
        found.data && <Shown picture={found.data} path={path} />
      ) : text === null ? (
        <p className="text-muted">It is no text.</p>
      ) : text === undefined ? (
        !found.error && <p className="text-muted">One moment…</p>
      ) : (
        <pre aria-label={path} tabIndex={0} className="max-h-80 overflow-auto rounded-lg bg-sunken p-3 text-xs">
          <Coloured text={text} path={path} />
        </pre>
      )}
      <div className="-mx-3 flex flex-wrap">
        {canEdit && (
          <button ref={editor} type="button" className={QUIET} onClick={() => setDraft(text)}>
            <Pencil aria-hidden className="size-4" /> Edit<span className="sr-only"> {path}</span>
          </button>
        )}
        <a className={QUIET} href={address} download={path.split('/').at(-1)}>
          <Download aria-hidden className="size-4" /> Download<span className="sr-only"> {path}</span>
        </a>
        {asked === undefined && (
          <button ref={opener} type="button" className={QUIET} onClick={() => setAsked('')}>
            <Trash2 aria-hidden className="size-4" /> Remove<span className="sr-only"> {path}</span>
          </button>
        )}
      </div>
      {asked !== undefined && (
        <Sure
          label={`Remove ${path}`}
          yes="Remove it"
          no="Keep it"
          problem={removing.error}
          busy={removing.isPending}
          act={() => removing.mutate()}
          leave={() => {
            removing.reset();
            setAsked(undefined);
          }}
        >
          It is gone for good then.
        </Sure>
      )}
    </>
  );
}

/** The words of a file; null where it has none, undefined until that is known. */
function useText(file: Blob | undefined): string | null | undefined {
  const [text, setText] = useState<string | null>();
  useEffect(() => {
    let isOld = false;
    if (file) void textOf(file).then((read) => isOld || setText(read));
    return () => void (isOld = true);
  }, [file]);
  return text;
}

function Shown({ picture, path }: { picture: Blob; path: string }) {
  const [url, setUrl] = useState<string>();
  useEffect(() => {
    const made = URL.createObjectURL(picture);
    setUrl(made);
    return () => URL.revokeObjectURL(made);
  }, [picture]);
  return url && <img src={url} alt={path} className="checkered max-h-80 w-fit max-w-full rounded-lg object-contain" />;
}

interface EditingProps {
  address: string;
  path: string;
  text: string;
  set: (text: string) => void;
  saved: () => Promise<unknown>;
  leave: () => void;
}

function Editing({ address, path, text, set, saved, leave }: EditingProps) {
  const [first] = useState(text);
  const area = useRef<HTMLTextAreaElement>(null);
  useEffect(() => area.current?.focus(), []);
  const saving = useMutation<void, Problem>({
    // a field of a page has no other ends of lines
    mutationFn: () => ask(address, { method: 'PUT', body: new Blob([first.includes('\r\n') ? text.replace(/\r?\n/g, '\r\n') : text]) }),
    onSuccess: saved,
  });
  const save = (event: FormEvent) => {
    event.preventDefault();
    if (!saving.isPending) saving.mutate();
  };
  return (
    <form onSubmit={save} className="space-y-2">
      <textarea
        ref={area}
        aria-label={`Text of ${path}`}
        spellCheck={false}
        className="field h-80 font-mono text-xs"
        value={text}
        onChange={({ target }) => set(target.value)}
        onKeyDown={(event) => {
          if (event.key !== 'Escape' || text !== first) return; // what was typed is not lost by a key
          event.preventDefault();
          event.stopPropagation();
          leave();
        }}
      />
      <Said problem={saving.error} />
      <div className="flex gap-1">
        <Button type="submit" className="py-2 aria-disabled:opacity-60" aria-disabled={saving.isPending}>
          {saving.isPending ? 'Saving…' : 'Save'}
        </Button>
        <Button kind="quiet" onClick={leave}>
          Leave it as it was
        </Button>
      </div>
    </form>
  );
}

interface WaysProps {
  box: Box;
  reread: () => Promise<unknown>;
  say: (words: string) => void;
}

/** The ways of files into a sandbox and out of it. */
function Ways({ box, reread, say }: WaysProps) {
  const [folder, setFolder] = useState('');
  const [zip, setZip] = useState<File>();
  const files = useRef<HTMLInputElement>(null);
  const zips = useRef<HTMLInputElement>(null);
  const restorer = useRef<HTMLButtonElement>(null);
  const putting = useMutation<number, Problem, File[]>({
    mutationFn: async (given) => {
      const paths = given.map(({ name }) => pathIn(folder, name));
      for (const [at, each] of given.entries()) await ask(boxFileAddress(box.id, paths[at] ?? each.name), { method: 'PUT', body: each });
      return given.length;
    },
    onSuccess: (count) => say(count === 1 ? 'One file is there' : `${count} files are there`),
    onSettled: reread,
  });
  const form = useRef<HTMLFormElement>(null);
  useFirstWrong(form, putting.error);
  const restoring = useMutation<void, Problem, File>({
    mutationFn: (given) => ask(addressOf(box.id, 'snapshot'), { method: 'PUT', body: given }),
    onSuccess: () => {
      say('The files are those of the zip');
      leave();
    },
    onSettled: reread,
  });
  const leave = () => {
    restoring.reset();
    setZip(undefined);
    restorer.current?.focus();
  };
  return (
    <div className="space-y-3 border-t border-line pt-4">
      <form
        ref={form}
        className="flex flex-wrap items-end gap-2"
        onSubmit={(event) => {
          event.preventDefault();
          files.current?.click();
        }}
      >
        <div className="min-w-40 flex-1 sm:max-w-64">
          <Field label="Bring files into the folder" problem={putting.error} name="folder" value={folder} set={setFolder} placeholder="the project itself" autoComplete="off" className="field min-h-10 py-1.5" />
        </div>
        <Button type="submit" className="py-1 aria-disabled:opacity-60" aria-disabled={putting.isPending}>
          <FileUp aria-hidden className="size-4" /> {putting.isPending ? 'Sending…' : 'Choose files'}
        </Button>
        <input
          ref={files}
          type="file"
          multiple
          hidden
          aria-label="Files to bring"
          onChange={({ target }) => {
            const given = [...(target.files ?? [])];
            target.value = '';
            if (given.length > 0 && !putting.isPending) putting.mutate(given);
          }}
        />
      </form>
      <Said problem={putting.error} except={['folder']} />
      <div className="-mx-3 flex flex-wrap">
        <a className={QUIET} href={addressOf(box.id, 'snapshot')} download>
          <FolderDown aria-hidden className="size-4" /> All of it as a zip
        </a>
        <button ref={restorer} type="button" className={QUIET} onClick={() => zips.current?.click()}>
          <FolderUp aria-hidden className="size-4" /> Replace all by a zip
        </button>
        <input
          ref={zips}
          type="file"
          hidden
          accept=".zip"
          aria-label="A zip of all files"
          onChange={({ target }) => {
            setZip(target.files?.[0]);
            target.value = '';
          }}
        />
      </div>
      {zip && (
        <Sure label="Replace all files" yes="Replace them" no="Keep them" problem={restoring.error} busy={restoring.isPending} act={() => restoring.mutate(zip)} leave={leave}>
          {`The files become those of ${zip.name}: what is not in it is removed. What was installed or built stays.`}
        </Sure>
      )}
    </div>
  );
}
