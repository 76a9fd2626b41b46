import { Trash2 } from 'lucide-react';
import { useRef } from 'react';
import { Link } from 'wouter';
import { ago } from '../api/dates';
import { type Box, endsWords, isOver, stateWords, useEnding } from '../api/sandboxes';
import { useDraft } from './draft';
import { Sure } from './sure';

const COLOURS: Partial<Record<Box['state'], string>> = { running: 'text-good', gone: 'text-bad', unknown: 'text-bad' };

/** How a sandbox stands, with a dot in its colour. */
export function BoxState({ box }: { box: Box }) {
  return (
    <span>
      <span aria-hidden className={`mr-2 mb-0.5 inline-block size-1.5 rounded-full bg-current align-middle ${COLOURS[box.state] ?? 'text-muted'} ${box.state === 'creating' ? 'breathing' : ''}`} />
      {stateWords(box)}
    </span>
  );
}

/** What it is made by, and when it ends. */
export function factsOf(box: Box, now: number): string[] {
  return [box.provider, box.network ? 'with the network' : '', `made ${ago(box.createdAt, now)}`, endsWords(box, now)].filter(Boolean);
}

/** One sandbox in the list of them; what is in it is a screen of its own. */
export function BoxRow({ box, name, now, ended }: { box: Box; name: string; now: number; ended: () => void }) {
  return (
    <li tabIndex={-1} aria-label={name} className="card flex flex-wrap items-center gap-x-4 gap-y-1 py-3 pr-2 pl-4">
      <div className="min-w-0 flex-1 space-y-0.5">
        <h2 className="font-medium wrap-anywhere">
          <Link href={`/sandboxes/${box.id}`} className="rounded-sm underline-offset-4 hover:underline">
            {name}
          </Link>
        </h2>
        <p className="text-sm text-muted">
          <BoxState box={box} /> {['', ...factsOf(box, now)].join(' · ')}
        </p>
        {box.ended && <p className="text-sm text-muted wrap-anywhere">{box.ended}</p>}
      </div>
      {!isOver(box) && <Ending box={box} name={name} ended={ended} />}
    </li>
  );
}

/** What ends a sandbox, and what that means, said before it is done; the next one has the focus then. */
export function Ending({ box, name, ended, isAlone = false }: { box: Box; name: string; ended: () => void; isAlone?: boolean }) {
  const [asked, setAsked, opener] = useDraft();
  const place = useRef<HTMLDivElement>(null);
  const isElsewhere = box.state === 'elsewhere';
  const ending = useEnding(box, () => {
    const row = place.current?.closest('li');
    const next = row?.nextElementSibling ?? row?.previousElementSibling ?? document.querySelector('h1');
    if (next instanceof HTMLElement) next.focus({ preventScroll: true });
    ended();
  });
  const what = isElsewhere ? 'Forget' : 'End';
  if (asked === undefined)
    return (
      <button
        ref={opener}
        type="button"
        aria-label={`${what} ${name}`}
        title={what}
        className="inline-flex min-h-10 shrink-0 items-center gap-2 rounded-xl px-3 py-2 text-sm text-muted hover:bg-sunken hover:text-text"
        onClick={() => setAsked('')}
      >
        <Trash2 aria-hidden className="size-4" /> {isAlone && what}
      </button>
    );
  const leave = () => {
    ending.reset();
    setAsked(undefined);
  };
  return (
    <div ref={place} className="w-full pr-2">
      <Sure label={`${what} ${name}`} yes={`${what} it`} no="Keep it" problem={ending.error} busy={ending.isPending} act={() => ending.mutate()} leave={leave}>
        {isElsewhere
          ? `It is at ${box.host}. Forget it if that place is no more: what still runs there is not ended.`
          : 'It goes for good, with all its files and processes. What you want to keep, take out as a zip before.'}
      </Sure>
    </div>
  );
}
