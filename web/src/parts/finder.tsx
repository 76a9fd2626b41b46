import { Search } from 'lucide-react';
import { type RefObject, Suspense, useEffect, useRef, useState } from 'react';
import type { Act } from '../api/acts';
import { Button } from './button';
import { Dialog } from './dialog';
import { FIND_KEY, IS_MAC, Key } from './keys';
import { late } from './late';

const Palette = late(() => import('./palette').then((module) => module.Palette));

/** What is typed into is the same before what is found by it is there. */
export const FIELD = {
  'aria-label': 'What to find',
  autoComplete: 'off',
  spellCheck: false,
  className: 'field mt-3',
  placeholder: 'A place, an animation, something to do',
  maxLength: 200,
};

/** Ctrl+K, ⌘K on a Mac, and the button for it: what there is to go to and to do, found by typing. `opener` is given what opens it. */
export function Finder({ opener }: { opener?: RefObject<() => void> }) {
  const [isOpen, setOpen] = useState(false);
  if (opener) opener.current = () => setOpen(true);
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      const isHeld = IS_MAC ? event.metaKey && !event.ctrlKey : event.ctrlKey && !event.metaKey; // a Mac's Ctrl+K deletes to the end of a line
      if (event.key.toLowerCase() !== 'k' || !isHeld || event.shiftKey || event.altKey) return;
      event.preventDefault(); // a browser would go to its own search
      if (!event.repeat && !document.querySelector('dialog:modal')) setOpen(true);
    };
    document.addEventListener('keydown', pressed);
    return () => document.removeEventListener('keydown', pressed);
  }, []);
  return (
    <>
      <Button kind="quiet" className="max-sm:hidden" aria-keyshortcuts={IS_MAC ? 'Meta+K' : 'Control+K'} onClick={() => setOpen(true)}>
        <Search aria-hidden className="size-4" /> Find{' '}
        <span className="max-lg:hidden">
          <Key name={FIND_KEY} />
        </span>
      </Button>
      {isOpen && <Finding close={() => setOpen(false)} />}
    </>
  );
}

/** It is typed into at once: no key goes to the page below while the rest is on its way. */
function Finding({ close }: { close: () => void }) {
  const [typed, setTyped] = useState('');
  const chosen = useRef<Act>(undefined);
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => input.current?.focus(), []); // once the dialog is open, which would have it on its first button
  return (
    <Dialog
      title="Find"
      className="mt-[12dvh] max-w-xl"
      close={() => {
        close();
        chosen.current?.act(); // once the focus is back where it was
      }}
    >
      <Suspense fallback={<input {...FIELD} ref={input} value={typed} onChange={({ target }) => setTyped(target.value)} />}>
        <Palette input={input} typed={typed} type={setTyped} chosen={(one) => (chosen.current = one)} />
      </Suspense>
    </Dialog>
  );
}
