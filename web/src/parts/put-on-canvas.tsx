import { type ReactNode, Suspense, useEffect, useSyncExternalStore } from 'react';
import { useLocation } from 'wouter';
import { Dialog } from './dialog';
import { late } from './late';

// canvases are read once somebody asks for them
const Choice = late(
  () => import('./canvas-choice').then((module) => module.CanvasChoice),
  (_, said) => (
    <Dialog title="Put it on a canvas" close={close}>
      {said}
    </Dialog>
  ),
);

interface Asked {
  sessionId: string;
  title: string;
}

let asked: Asked | undefined;
const watchers = new Set<() => void>();

function watch(told: () => void): () => void {
  watchers.add(told);
  return () => watchers.delete(told);
}

function ask(what: Asked | undefined): void {
  asked = what;
  for (const told of watchers) told();
}

const close = () => ask(undefined);

/** The way of an animation onto a canvas. */
export function PutOnCanvas({ sessionId, title, label, className, children }: Asked & { label: string; className: string; children: ReactNode }) {
  return (
    <button type="button" aria-haspopup="dialog" aria-label={label} title="Put it on a canvas" className={className} onClick={() => ask({ sessionId, title })}>
      {children}
    </button>
  );
}

/** What is asked about that. It is the page's: a card around it would hear its keys, and play where the pointer is in it. */
export function PuttingOnCanvas() {
  const what = useSyncExternalStore(watch, () => asked);
  const [path] = useLocation();
  useEffect(close, [path]);
  return (
    what && (
      <Suspense fallback={null}>
        <Choice {...what} close={close} />
      </Suspense>
    )
  );
}
