import { useMutation, useQueryClient } from '@tanstack/react-query';
import { Plus, Trash2 } from 'lucide-react';
import { type FormEvent, useId, useRef, useState } from 'react';
import { useAct } from '../api/acts';
import { ask, Problem } from '../api/client';
import { ago } from '../api/dates';
import { type Image, imageWords, PROVIDERS, useImageRemoval, useImages } from '../api/sandboxes';
import { bytes } from '../api/words';
import { Button } from './button';
import { Choice, Chosen } from './chosen';
import { Dialog } from './dialog';
import { useDraft } from './draft';
import { Field, useFirstWrong } from './field';
import { Said } from './said';
import { Sure } from './sure';

const FIELDS = ['name', 'provider', 'clean'];

/** What sandboxes can begin as, beside the animation template. */
export function Images({ now, say }: { now: number; say: (words: string) => void }) {
  const images = useImages();
  const [isOpen, setOpen] = useState(false);
  const heading = useRef<HTMLHeadingElement>(null);
  const name = useId();
  useAct('New image', () => setOpen(true));
  return (
    <section aria-labelledby={name} className="card p-5">
      <div className="flex min-h-8 items-center justify-between gap-3">
        <h2 ref={heading} id={name} tabIndex={-1} className="text-sm text-muted">
          Images
        </h2>
        <Button kind="quiet" aria-haspopup="dialog" className="-my-1 -mr-2" onClick={() => setOpen(true)}>
          <Plus aria-hidden className="size-4" /> New image
        </Button>
      </div>
      <div className="mt-3 space-y-3">
        <Said problem={images.error} />
        {images.data?.length === 0 && <p className="text-sm text-muted">None yet. An image is a project of yours, as a zip, that sandboxes begin as.</p>}
        {!images.data && !images.error && <p className="text-sm text-muted">One moment…</p>}
        {images.data && images.data.length > 0 && (
          <ul aria-label="Images" className="-my-1 divide-y divide-line">
            {images.data.map((each) => (
              <ImageRow
                key={each.id}
                image={each}
                now={now}
                removed={() => {
                  say(`${each.name} is removed`);
                  heading.current?.focus({ preventScroll: true });
                }}
              />
            ))}
          </ul>
        )}
      </div>
      {isOpen && <Making close={() => setOpen(false)} say={say} />}
    </section>
  );
}

function ImageRow({ image, now, removed }: { image: Image; now: number; removed: () => void }) {
  const [asked, setAsked, opener] = useDraft();
  const removing = useImageRemoval(image, removed);
  const isElsewhere = image.state === 'elsewhere';
  const what = isElsewhere ? 'Forget' : 'Remove';
  const leave = () => {
    removing.reset();
    setAsked(undefined);
  };
  return (
    <li className="flex flex-wrap items-center gap-x-3 py-2 text-sm">
      <div className="min-w-0 flex-1">
        <h3 className="font-medium wrap-anywhere">{image.name}</h3>
        <p className="text-muted tabular-nums">
          {[image.state === 'ready' ? '' : imageWords(image), bytes(image.sizeBytes), image.provider, ago(image.createdAt, now)].filter(Boolean).join(' · ')}
        </p>
      </div>
      {asked === undefined ? (
        <button
          ref={opener}
          type="button"
          aria-label={`${what} ${image.name}`}
          title={what}
          className="-mr-1.5 grid size-9 shrink-0 place-items-center rounded-lg text-muted hover:bg-sunken hover:text-text"
          onClick={() => setAsked('')}
        >
          <Trash2 aria-hidden className="size-4" />
        </button>
      ) : (
        <Sure label={`${what} ${image.name}`} yes={`${what} it`} no="Keep it" problem={removing.error} busy={removing.isPending} act={() => removing.mutate()} leave={leave}>
          {isElsewhere ? `It is at ${image.host}. Forget it if that place is no more.` : 'It is gone for good then. Sandboxes that began as it keep what they have.'}
        </Sure>
      )}
    </li>
  );
}

function Making({ close, say }: { close: () => void; say: (words: string) => void }) {
  const client = useQueryClient();
  const [zip, setZip] = useState<File>();
  const [name, setName] = useState('');
  const [provider, setProvider] = useState('');
  const [isClean, setClean] = useState(false);
  const making = useMutation<Image, Problem, File>({
    mutationFn: (file) => {
      const asked = new URLSearchParams({ name, ...(provider ? { provider } : {}), ...(isClean ? { clean: 'true' } : {}) });
      return ask(`/v1/images?${asked}`, { method: 'POST', body: file });
    },
    onSuccess: (made) => {
      say(`${made.name} is there: sandboxes can begin as it`);
      close();
    },
    onSettled: () => client.invalidateQueries({ queryKey: ['images'] }),
  });
  const problem = making.error;
  const form = useRef<HTMLFormElement>(null);
  useFirstWrong(form, problem);
  const make = (event: FormEvent) => {
    event.preventDefault();
    if (zip && !making.isPending) making.mutate(zip);
  };
  const choose = (file: File | undefined) => {
    setZip(file);
    if (file && !name) setName(file.name.replace(/\.zip$/i, ''));
  };
  return (
    <Dialog title="New image" close={close}>
      <form ref={form} noValidate onSubmit={make} className="mt-1 space-y-4 text-sm">
        <p className="text-muted">A project as a zip, with what it depends on. Sandboxes that begin as it have all of it at once.</p>
        <Chosen label="Choose a zip" accept=".zip" problem={problem} name="body" file={zip} choose={choose} />
        <div className="grid gap-3 sm:grid-cols-2">
          <Field label="Name" problem={problem} name="name" value={name} set={setName} autoComplete="off" className="field min-h-10 py-1.5" />
          <Choice label="Provider" usual="The server’s own" options={PROVIDERS} problem={problem} name="provider" value={provider} set={setProvider} />
        </div>
        <label className="flex min-h-8 items-center gap-2.5">
          <input type="checkbox" className="size-4 shrink-0 accent-(--accent)" checked={isClean} onChange={({ target }) => setClean(target.checked)} />
          Make it anew, with nothing of an earlier one
        </label>
        <Said problem={problem} except={FIELDS} />
        <Button kind="main" type="submit" disabled={!zip} aria-disabled={making.isPending} className="aria-disabled:opacity-60">
          {making.isPending ? 'Making it…' : 'Make it'}
        </Button>
      </form>
    </Dialog>
  );
}
