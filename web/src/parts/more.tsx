import { Ellipsis, Keyboard, LogOut, Search } from 'lucide-react';
import { useRef, useState } from 'react';
import { Dialog } from './dialog';
import { Finder } from './finder';
import { Keys } from './keys';

const ROW = 'flex min-h-12 w-full items-center gap-3 rounded-xl px-3 text-left hover:bg-sunken';

/** Who is signed in, and how that ends. */
export interface SignedIn {
  user: string;
  signOut: () => void;
}

/**
 * What helps everywhere: to find something, the keys and what is switched beside them. On a phone they are behind one button; so are, on
 * whatever has no room for all of it, the keys and who is signed in.
 */
export function Helps({ signedIn }: { signedIn?: SignedIn | undefined }) {
  const find = useRef(() => {});
  const keys = useRef(() => {});
  return (
    <>
      <Finder opener={find} />
      <Keys opener={keys} className={signedIn ? 'max-xl:hidden' : 'max-sm:hidden'} />
      <More find={() => find.current()} keys={() => keys.current()} signedIn={signedIn} />
    </>
  );
}

function More({ find, keys, signedIn }: { find: () => void; keys: () => void; signedIn: SignedIn | undefined }) {
  const [isOpen, setOpen] = useState(false);
  const chosen = useRef<() => void>(undefined);
  const dialog = useRef<HTMLDivElement>(null);
  const choose = (what: () => void) => {
    chosen.current = what;
    dialog.current?.closest('dialog')?.close();
  };
  const close = () => {
    setOpen(false);
    chosen.current?.(); // once the focus is back where it was
    chosen.current = undefined;
  };
  return (
    <>
      <button
        type="button"
        className={`grid size-8 shrink-0 place-items-center rounded-lg text-muted hover:bg-sunken hover:text-text max-sm:-mr-2 ${signedIn ? 'xl:hidden' : 'sm:hidden'}`}
        aria-label="Find, keys and motion"
        title="Find, keys and motion"
        aria-haspopup="dialog"
        onClick={() => setOpen(true)}
      >
        <Ellipsis aria-hidden className="size-4" />
      </button>
      {isOpen && (
        <Dialog title="Help" close={close} className="max-w-sm">
          <div ref={dialog} className="-mx-3 mt-2">
            <button type="button" className={ROW} onClick={() => choose(find)}>
              <Search aria-hidden className="size-4 shrink-0 text-muted" /> Find a place, an animation, something to do
            </button>
            <button type="button" className={ROW} onClick={() => choose(keys)}>
              <Keyboard aria-hidden className="size-4 shrink-0 text-muted" /> Keys, notices and motion
            </button>
            {signedIn && (
              <button type="button" className={ROW} onClick={() => choose(signedIn.signOut)}>
                <LogOut aria-hidden className="size-4 shrink-0 text-muted" /> Sign out
                <span className="ml-auto truncate text-sm text-muted">{signedIn.user}</span>
              </button>
            )}
          </div>
        </Dialog>
      )}
    </>
  );
}
