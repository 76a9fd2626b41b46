import { useMutation, useQueryClient } from '@tanstack/react-query';
import { Plus } from 'lucide-react';
import { type FormEvent, useRef, useState } from 'react';
import { useLocation } from 'wouter';
import { useAct } from '../api/acts';
import { ask, Problem } from '../api/client';
import { AS_USUAL, askedOf, type Box, LIFETIMES, PROVIDERS, rereadBoxes, useImages } from '../api/sandboxes';
import { Button } from './button';
import { Choice } from './chosen';
import { Dialog } from './dialog';
import { useAnswered, useFirstWrong } from './field';
import { Said } from './said';

const FIELDS = ['image', 'provider', 'lifetimeS', 'network'];

/** The way to a sandbox of one's own; once it is made, that is where one is. */
export function NewBox() {
  const [isOpen, setOpen] = useState(false);
  useAct('New sandbox', () => setOpen(true));
  return (
    <>
      <Button kind="main" aria-haspopup="dialog" onClick={() => setOpen(true)}>
        <Plus aria-hidden className="size-4" /> New sandbox
      </Button>
      {isOpen && <Making close={() => setOpen(false)} />}
    </>
  );
}

function Making({ close }: { close: () => void }) {
  const client = useQueryClient();
  const [, go] = useLocation();
  const images = useImages();
  const [wanted, setWanted] = useState(AS_USUAL);
  const isLeft = useRef(false);
  const making = useMutation<Box, Problem>({
    mutationFn: () => ask('/v1/sandboxes', { method: 'POST', body: askedOf(wanted) }),
    onSuccess: ({ id }) => {
      if (!isLeft.current) go(`/sandboxes/${id}`);
    },
    onSettled: () => rereadBoxes(client),
  });
  const problem = making.error;
  const form = useRef<HTMLFormElement>(null);
  useFirstWrong(form, problem);
  const network = useAnswered({ problem, name: 'network', value: wanted.network });
  const make = (event: FormEvent) => {
    event.preventDefault();
    if (!making.isPending) making.mutate();
  };
  const ready = (images.data ?? []).filter(({ state }) => state === 'ready');
  return (
    <Dialog
      title="New sandbox"
      close={() => {
        isLeft.current = true; // it is made all the same, and stands in the list
        close();
      }}
    >
      <form ref={form} noValidate onSubmit={make} className="mt-1 space-y-4 text-sm">
        <p className="text-muted">A place apart, where files are changed and programs run. It ends by itself when its time is over.</p>
        <Choice
          label="Begins as"
          usual="The animation template"
          options={ready.map(({ id, name, provider }) => [id, `${name} (${provider})`] as const)}
          problem={problem}
          name="image"
          value={wanted.image}
          set={(image) => setWanted({ ...wanted, image })}
        />
        <div className="grid gap-3 sm:grid-cols-2">
          <Choice label="Provider" usual="The server’s own" options={PROVIDERS} problem={problem} name="provider" value={wanted.provider} set={(provider) => setWanted({ ...wanted, provider })} />
          <Choice label="Ends after" usual="A day, as usual" options={LIFETIMES} problem={problem} name="lifetimeS" value={wanted.lifetime} set={(lifetime) => setWanted({ ...wanted, lifetime })} />
        </div>
        <div>
          <label className="flex min-h-8 items-center gap-2.5">
            <input type="checkbox" className="size-4 shrink-0 accent-(--accent)" checked={wanted.network} onChange={({ target }) => setWanted({ ...wanted, network: target.checked })} {...network.marks} />
            Its programs may reach the network, as far as this server allows
          </label>
          {network.words}
        </div>
        <Said problem={problem} except={FIELDS} />
        <Button kind="main" type="submit" aria-disabled={making.isPending} className="aria-disabled:opacity-60">
          {making.isPending ? 'Making it…' : 'Make it'}
        </Button>
      </form>
    </Dialog>
  );
}
