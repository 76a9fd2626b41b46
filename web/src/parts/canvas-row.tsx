import type { ReactNode } from 'react';
import { Link } from 'wouter';
import { clock } from '../../node/src/clock';
import { ago } from '../api/dates';
import type { Listed } from '../canvas/canvases';

interface Props {
  canvas: Listed;
  href: string;
  isCurrent?: boolean;
  open: () => void;
  /** What else there is to say of it. */
  children?: ReactNode;
}

/** A canvas in a list of them, as the link that leads there. */
export function CanvasRow({ canvas: { name, nodes, changedAt }, href, isCurrent = false, open, children }: Props) {
  return (
    <Link
      href={href}
      aria-current={isCurrent ? 'page' : undefined}
      className="flex min-w-0 flex-1 items-center gap-3 rounded-xl px-3 py-2 -outline-offset-2 hover:bg-sunken aria-[current]:bg-accent-ground"
      onClick={open}
    >
      <span className="min-w-0 flex-1">
        <span className="block font-medium wrap-anywhere">{name}</span>
        <small className="text-[0.8125rem] text-muted">
          {nodes === 1 ? '1 node' : `${nodes} nodes`}
          {changedAt > 0 && ` · ${ago(new Date(changedAt).toISOString(), clock.now())}`}
        </small>
      </span>
      {children}
    </Link>
  );
}
