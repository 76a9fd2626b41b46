import { Search } from 'lucide-react';
import { lazy, Suspense, useEffect, useState } from 'react';
import { Button } from './button';
import { Key } from './keys';

const Palette = lazy(() => import('./palette').then((module) => ({ default: module.Palette })));

/** Ctrl+K, and the button for it: what there is to go to and to do, found by typing. */
export function Finder() {
  const [isOpen, setOpen] = useState(false);
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      const isIt = event.key.toLowerCase() === 'k' && (event.ctrlKey || event.metaKey) && !event.shiftKey && !event.altKey;
      if (!isIt) return;
      event.preventDefault(); // a browser would go to its own search
      if (!event.repeat && !document.querySelector('dialog:modal')) setOpen(true);
    };
    document.addEventListener('keydown', pressed);
    return () => document.removeEventListener('keydown', pressed);
  }, []);
  return (
    <>
      <Button kind="quiet" className="max-sm:hidden" aria-keyshortcuts="Control+K" onClick={() => setOpen(true)}>
        <Search aria-hidden className="size-4" /> Find <Key name="Ctrl K" />
      </Button>
      {isOpen && (
        <Suspense>
          <Palette close={() => setOpen(false)} />
        </Suspense>
      )}
    </>
  );
}
