import { X } from 'lucide-react';
import { type MouseEvent, type ReactNode, useEffect, useId, useRef } from 'react';
import { Button } from './button';

interface Props {
  title: string;
  close: () => void;
  className?: string;
  children: ReactNode;
}

/** Where one types, if one does. A browser gives a field back the focus, and not always that: in Chromium nothing is typed then. */
function whereTyped(): () => void {
  const at = document.activeElement;
  if (!(at instanceof HTMLInputElement || at instanceof HTMLTextAreaElement) || at.selectionStart === null) return () => {};
  const { selectionStart, selectionEnd } = at;
  return () => void (at === document.activeElement && at.setSelectionRange(selectionStart, selectionEnd));
}

/** Something that is looked at by itself: Escape, its button and a click beside it leave it. */
export function Dialog({ title, close, className = 'max-w-lg', children }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  const name = useId();
  const pressedBeside = useRef(false);
  const isBeside = ({ target, clientX, clientY }: MouseEvent) => {
    const box = dialog.current?.getBoundingClientRect();
    if (target !== dialog.current || !box) return false;
    return clientX < box.left || clientX > box.right || clientY < box.top || clientY > box.bottom;
  };
  const goOnTyping = useRef(() => {});
  useEffect(() => {
    goOnTyping.current = whereTyped();
    dialog.current?.showModal();
  }, []);
  return (
    <dialog
      ref={dialog}
      aria-labelledby={name}
      className={`card m-auto w-[calc(100%-1.5rem)] p-6 text-text backdrop:bg-black/40 ${className}`}
      onClose={() => {
        goOnTyping.current();
        close();
      }}
      onKeyDown={(event) => event.key === 'Escape' && event.stopPropagation()} // it is meant for this, not for what this lies over
      onPointerDown={(event) => (pressedBeside.current = isBeside(event))}
      onClick={(event) => {
        // what began inside, as when text is selected, is no click beside it
        if (pressedBeside.current && isBeside(event)) dialog.current?.close();
      }}
    >
      <div className="flex items-center justify-between">
        <h2 id={name} className="font-semibold">
          {title}
        </h2>
        <Button kind="quiet" aria-label="Close" className="px-2" onClick={() => dialog.current?.close()}>
          <X aria-hidden className="size-4" />
        </Button>
      </div>
      {children}
    </dialog>
  );
}
