import { useMutation, useQueryClient } from '@tanstack/react-query';
import { ChevronLeft, RotateCcw, SquareTerminal, Timer } from 'lucide-react';
import { type ReactNode, Suspense, useId, useState } from 'react';
import { Link, useLocation } from 'wouter';
import { useAct } from '../api/acts';
import { ask, Problem } from '../api/client';
import { useMinutes } from '../api/minutes';
import { addressOf, type Box, isOver, LIFETIMES, nameOf, rereadBox, rereadBoxes, useBox, useImages, whyNot } from '../api/sandboxes';
import { BoxFiles } from '../parts/box-files';
import { Processes } from '../parts/box-processes';
import { Project } from '../parts/box-project';
import { BoxState, Ending, factsOf } from '../parts/box-row';
import { Button } from '../parts/button';
import { Choice } from '../parts/chosen';
import { useDraft } from '../parts/draft';
import { late } from '../parts/late';
import { Said } from '../parts/said';
import { Missing } from './missing';

const BoxTerminal = late(
  () => import('../parts/box-terminal').then((module) => module.BoxTerminal),
  ({ name }, said) => (
    <section aria-label={`Terminal of ${name}`} className="card px-5 pt-1 pb-5">
      {said}
    </section>
  ),
);

/** One sandbox of one's own: how it stands, its page, its files, and what runs in it. */
export function Sandbox({ id }: { id: string }) {
  const found = useBox(id);
  const images = useImages();
  const now = useMinutes();
  const client = useQueryClient();
  const [, go] = useLocation();
  const box = found.data;
  const [terminal, setTerminal, opener] = useDraft();
  const canType = box !== undefined && whyNot(box) === undefined;
  useAct(canType && terminal === undefined && 'Open a terminal', () => setTerminal(''));
  if (found.error?.status === 404) return <Missing what="This sandbox is not there." why="It may have been another person's, or its address is not whole." way={['/sandboxes', 'To your sandboxes']} />;
  if (!box) return <div className="py-16">{found.error ? <Said problem={found.error} /> : <p className="text-muted">One moment…</p>}</div>;
  const name = nameOf(box, images.data);
  const why = whyNot(box);
  return (
    <div className="mx-auto max-w-5xl pt-2">
      <title>{`${name} · koda`}</title>
      <Link href="/sandboxes" className="-ml-1 inline-flex min-h-8 items-center gap-1 rounded-lg pr-2 text-sm text-muted hover:text-text">
        <ChevronLeft aria-hidden className="size-4" /> Sandboxes
      </Link>
      <div className="mt-1 flex flex-wrap items-center gap-x-4 gap-y-2">
        <div className="mr-auto min-w-0">
          <h1 tabIndex={-1} className="w-fit text-xl font-semibold tracking-tight wrap-anywhere sm:text-2xl">
            {name}
          </h1>
          <p className="mt-1 text-sm text-muted">
            <BoxState box={box} /> {['', ...factsOf(box, now)].join(' · ')}
          </p>
        </div>
        {!isOver(box) && (
          <div className="-mx-3 flex max-w-full flex-wrap items-center">
            {canType && terminal === undefined && (
              <Button ref={opener} kind="quiet" onClick={() => setTerminal('')}>
                <SquareTerminal aria-hidden className="size-4" /> Terminal
              </Button>
            )}
            <Button kind="quiet" aria-disabled={found.isFetching} className="aria-disabled:opacity-60" onClick={() => found.isFetching || void rereadBox(client, id)}>
              <RotateCcw aria-hidden className="size-4" /> Look again
            </Button>
            {box.state === 'running' && <Extending box={box} />}
            <Ending box={box} name={name} isAlone ended={() => go('/sandboxes')} />
          </div>
        )}
      </div>
      {why ? (
        <p className="mt-6 rounded-xl border border-line px-4 py-3 text-sm text-muted wrap-anywhere">{why}</p>
      ) : (
        <div className="mt-6 space-y-6">
          {terminal !== undefined && (
            <Suspense fallback={<p className="text-sm text-muted">One moment…</p>}>
              <BoxTerminal box={box} name={name} close={() => setTerminal(undefined)} />
            </Suspense>
          )}
          <Part name="The page">
            <Project box={box} name={name} />
          </Part>
          <Part name="Files">
            <BoxFiles box={box} />
          </Part>
          <Part name="Processes">
            <Processes box={box} />
          </Part>
        </div>
      )}
    </div>
  );
}

function Part({ name, children }: { name: string; children: ReactNode }) {
  const id = useId();
  return (
    <section aria-labelledby={id} className="card p-5">
      <h2 id={id} className="mb-3 text-sm text-muted">
        {name}
      </h2>
      {children}
    </section>
  );
}

/** Has it live on, from now. */
function Extending({ box }: { box: Box }) {
  const client = useQueryClient();
  const [span, setSpan, opener] = useDraft();
  const [said, say] = useState('');
  const extending = useMutation<Box, Problem>({
    mutationFn: () => ask(addressOf(box.id, 'extend'), { method: 'POST', body: { lifetimeS: Number(span) } }),
    onSuccess: async (extended) => {
      client.setQueryData(['box', box.id], extended);
      setSpan(undefined);
      say('It lives on');
      await rereadBoxes(client);
    },
  });
  if (span === undefined)
    return (
      <>
        <Button ref={opener} kind="quiet" onClick={() => setSpan('86400')}>
          <Timer aria-hidden className="size-4" /> Have it live on
        </Button>
        <span role="status" className="sr-only">
          {said}
        </span>
      </>
    );
  const leave = () => {
    extending.reset();
    setSpan(undefined);
  };
  return (
    <form
      className="flex flex-wrap items-end gap-2 px-3 text-sm"
      onSubmit={(event) => {
        event.preventDefault();
        if (!extending.isPending) extending.mutate();
      }}
      onKeyDown={(event) => {
        if (event.key !== 'Escape') return;
        event.preventDefault();
        event.stopPropagation();
        leave();
      }}
    >
      <Choice label="From now on, at least" options={LIFETIMES} problem={extending.error} name="lifetimeS" value={span} set={setSpan} />
      <Button type="submit" className="py-2 aria-disabled:opacity-60" aria-disabled={extending.isPending}>
        Extend it
      </Button>
      <Button kind="quiet" onClick={leave}>
        Leave it
      </Button>
      <div className="w-full">
        <Said problem={extending.error} except={['lifetimeS']} />
      </div>
    </form>
  );
}
