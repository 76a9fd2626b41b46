import { useMutation } from '@tanstack/react-query';
import { Camera, Clapperboard, ExternalLink, FolderDown, Hammer, MonitorPlay } from 'lucide-react';
import { type FormEvent, type ReactNode, useEffect, useRef, useState } from 'react';
import { Link } from 'wouter';
import { useAct } from '../api/acts';
import { Attempt } from '../api/attempt';
import { ask, Problem, type Schemas } from '../api/client';
import { addressOf, type Box, buildWords, placeOf } from '../api/sandboxes';
import { numberOf } from '../api/typed';
import { Button } from './button';
import { Copied } from './copied';
import { Field, useFirstWrong } from './field';
import { Said } from './said';

const QUIET = 'inline-flex min-h-10 items-center gap-2 rounded-xl px-3 py-2 text-sm text-muted hover:bg-sunken hover:text-text';

/** The project as a page: seen as it runs, built, pictured, taken out and rendered. */
export function Project({ box, name }: { box: Box; name: string }) {
  const [built, setBuilt] = useState<Schemas['BuildView']>();
  const [hasTypes, setTypes] = useState(false);
  const seeing = useMutation<Schemas['PreviewLink'], Problem>({ mutationFn: () => ask(addressOf(box.id, 'preview'), { method: 'POST' }) });
  const building = useMutation<Schemas['BuildView'], Problem>({
    mutationFn: () => ask(`${addressOf(box.id, 'build')}${hasTypes ? '?types=true' : ''}`, { method: 'POST' }),
    onSuccess: setBuilt,
  });
  const [attempt] = useState(() => new Attempt());
  const rendering = useMutation<{ id: string }, Problem>({
    mutationFn: async () => {
      const form = new FormData();
      form.append('file', await ask<Blob>(addressOf(box.id, 'bundle'), { as: 'blob' }), 'page.zip');
      form.append('options', '{}');
      return ask('/v1/renders', { method: 'POST', key: attempt.keyOf([box.id, built]), body: form });
    },
    onSettled: (_, problem) => attempt.ended(problem ?? undefined),
  });
  const build = () => building.isPending || building.mutate();
  useAct('Build', build);
  return (
    <div className="space-y-3 text-sm">
      <div className="flex flex-wrap items-center gap-2">
        <Button className="py-2 aria-disabled:opacity-60" aria-disabled={building.isPending} onClick={build}>
          <Hammer aria-hidden className={`size-4 ${building.isPending ? 'breathing' : ''}`} /> {building.isPending ? 'Building…' : 'Build'}
        </Button>
        <Button className="py-2 aria-disabled:opacity-60" aria-disabled={seeing.isPending} onClick={() => seeing.isPending || seeing.mutate()}>
          <MonitorPlay aria-hidden className={`size-4 ${seeing.isPending ? 'breathing' : ''}`} /> {seeing.isPending ? 'Starting it…' : 'See it run'}
        </Button>
        <label className="flex min-h-8 items-center gap-2.5 text-muted sm:ml-2">
          <input type="checkbox" className="size-4 shrink-0 accent-(--accent)" checked={hasTypes} onChange={({ target }) => setTypes(target.checked)} />
          Check types, too
        </label>
      </div>
      <Said problem={building.error ?? seeing.error ?? rendering.error} />
      <div role="status" className="space-y-2">
        {built && <p className={built.ok ? 'text-good' : 'text-bad'}>{buildWords(built)}</p>}
        {rendering.data && (
          <p>
            It is being rendered.{' '}
            <Link href={`/renders/${rendering.data.id}`} className="text-accent underline underline-offset-4">
              See how far it is
            </Link>
          </p>
        )}
      </div>
      {built && !built.ok && (
        <ul aria-label="What is wrong" className="space-y-2">
          {built.problems.map((each, at) => (
            <li key={at} className="rounded-xl bg-sunken p-3">
              {placeOf(each) && <p className="font-mono text-xs text-muted wrap-anywhere">{placeOf(each)}</p>}
              <p className="wrap-anywhere whitespace-pre-wrap">{each.message}</p>
            </li>
          ))}
        </ul>
      )}
      {built?.ok && (
        <div className="-mx-3 flex flex-wrap gap-x-1">
          <Button kind="quiet" className="aria-disabled:opacity-60" aria-disabled={rendering.isPending} onClick={() => rendering.isPending || rendering.mutate()}>
            <Clapperboard aria-hidden className="size-4" /> {rendering.isPending ? 'Sending…' : 'Render it'}
          </Button>
          <a className={QUIET} href={addressOf(box.id, 'bundle')} download>
            <FolderDown aria-hidden className="size-4" /> What was built, as a zip
          </a>
        </div>
      )}
      {seeing.data && <Running link={seeing.data} name={name} />}
      <Picture box={box} name={name} />
    </div>
  );
}

/** A page that is seen by its address alone, here and in another tab. */
function Running({ link: { url }, name }: { link: Schemas['PreviewLink']; name: string }) {
  return (
    <div className="space-y-2">
      <iframe key={url} src={url} title={`${name}, running`} className="aspect-video w-full rounded-xl border border-line scheme-light" referrerPolicy="no-referrer" />
      <OwnTab url={url} />
    </div>
  );
}

/** Where something of a sandbox is seen, for an hour. */
export function OwnTab({ url }: { url: string }) {
  return (
    <div className="space-y-1">
      <a className="inline-flex min-h-8 items-center gap-1.5 text-accent underline underline-offset-4" href={url} target="_blank" rel="noreferrer">
        <ExternalLink aria-hidden className="size-4" /> Open it<span className="sr-only"> in another tab</span>
      </a>
      <Copied label="Address" text={url} />
      <p className="text-muted">Whoever has the address sees it, for an hour.</p>
    </div>
  );
}

const SIZE = { at: '0', width: '1920', height: '1080' };

/** The frame of a time, as a render would show it. */
function Picture({ box, name }: { box: Box; name: string }) {
  const [typed, setTyped] = useState(SIZE);
  const [shown, setShown] = useState<{ url: string; at: string }>();
  const taking = useMutation<Blob, Problem>({
    mutationFn: () => {
      const body = { atS: numberOf(typed.at), widthPx: numberOf(typed.width), heightPx: numberOf(typed.height) };
      return ask(addressOf(box.id, 'screenshot'), { method: 'POST', body, as: 'blob' });
    },
    onSuccess: (picture) => setShown({ url: URL.createObjectURL(picture), at: typed.at }),
  });
  useEffect(() => () => shown && URL.revokeObjectURL(shown.url), [shown]);
  const form = useRef<HTMLFormElement>(null);
  useFirstWrong(form, taking.error);
  const take = (event: FormEvent) => {
    event.preventDefault();
    if (!taking.isPending) taking.mutate();
  };
  const field = (of: keyof typeof SIZE, named: string, label: string): ReactNode => (
    <Field label={label} isNumber problem={taking.error} name={named} value={typed[of]} set={(value) => setTyped({ ...typed, [of]: value })} className="field py-1.5 tabular-nums" />
  );
  return (
    <details>
      <summary className="min-h-6 w-fit cursor-pointer text-accent">Take a picture</summary>
      <form ref={form} noValidate onSubmit={take} className="mt-2 space-y-3">
        <div className="grid grid-cols-3 items-end gap-3">
          {field('at', 'atS', 'At, in seconds')}
          {field('width', 'widthPx', 'Width, in pixels')}
          {field('height', 'heightPx', 'Height, in pixels')}
        </div>
        <Said problem={taking.error} except={['atS', 'widthPx', 'heightPx']} />
        <Button type="submit" className="py-2 aria-disabled:opacity-60" aria-disabled={taking.isPending}>
          <Camera aria-hidden className={`size-4 ${taking.isPending ? 'breathing' : ''}`} /> {taking.isPending ? 'Taking it…' : 'Take it'}
        </Button>
        {shown && (
          <div className="space-y-1">
            <img src={shown.url} alt={`${name} at ${shown.at} s`} className="checkered max-h-96 max-w-full rounded-lg object-contain" />
            <a className="inline-flex min-h-8 items-center gap-1.5 text-accent underline underline-offset-4" href={shown.url} download={`at-${shown.at}s.png`}>
              <FolderDown aria-hidden className="size-4" /> Save it as a PNG
            </a>
          </div>
        )}
      </form>
    </details>
  );
}
