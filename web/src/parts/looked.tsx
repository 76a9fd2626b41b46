import { ChevronLeft, ChevronRight, ExternalLink, ImageOff } from 'lucide-react';
import { type KeyboardEvent, useRef, useState } from 'react';
import { clock } from '../../node/src/clock';
import { ago } from '../api/dates';
import { type Picture, timeOf } from '../api/pictures';
import { Button } from './button';
import { Dialog } from './dialog';

const SMALL_PX = 160;

/** Which picture is open, by its number; kept above what shows it, which is made anew where the window grows or shrinks. */
export interface Opened {
  opened: number | undefined;
  open: (seq: number | undefined) => void;
}

/** What agents looked at, at one place of the talk: each picture small, with its time in the film, and large for who wants that. */
export function Looked({ pictures, opened, open }: Opened & { pictures: readonly Picture[] }) {
  const small = useRef<HTMLUListElement>(null);
  const picture = pictures.find(({ seq }) => seq === opened);
  const close = () => {
    const { activeElement: at, body } = document;
    const own = small.current?.children[picture ? pictures.indexOf(picture) : 0];
    if (at === body || at?.closest('dialog')) own?.querySelector('button')?.focus(); // what opened it is not there any more
    open(undefined);
  };
  return (
    <li className="text-sm">
      <p className="text-muted">koda looked at {pictures.length === 1 && pictures[0] ? timeOf(pictures[0]) : `${pictures.length} moments`}</p>
      <ul ref={small} aria-label="What koda looked at" className="mt-1.5 flex flex-wrap gap-2">
        {pictures.map((each) => (
          <li key={each.seq}>
            <button
              type="button"
              title="Open it large"
              aria-haspopup="dialog"
              className="block overflow-hidden rounded-lg border border-line bg-sunken text-xs text-muted hover:border-line-strong hover:text-text"
              onClick={() => open(each.seq)}
            >
              <Shown picture={each} className="h-20 max-w-40 min-w-12 object-contain" isSmall />
              <span className="block px-1 py-1 tabular-nums" aria-hidden>
                {timeOf(each)}
              </span>
            </button>
          </li>
        ))}
      </ul>
      {picture && <Large picture={picture} pictures={pictures} show={open} close={close} />}
    </li>
  );
}

interface LargeProps {
  picture: Picture;
  pictures: readonly Picture[];
  show: (seq: number) => void;
  close: () => void;
}

/** One of them as large as there is room for; the arrow keys go to those beside it. */
function Large({ picture, pictures, show, close }: LargeProps) {
  const at = pictures.indexOf(picture);
  const go = (by: 1 | -1) => {
    const beside = pictures[at + by];
    if (beside) show(beside.seq);
  };
  const keys = (event: KeyboardEvent) => {
    const by = ({ ArrowLeft: -1, ArrowRight: 1 } as const)[event.key as 'ArrowLeft' | 'ArrowRight'];
    if (!by || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    event.stopPropagation(); // the stage behind this has keys of its own
    go(by);
  };
  return (
    <div onKeyDown={keys}>
      <Dialog title={`The page at ${timeOf(picture)}`} close={close} className="max-w-6xl">
        <div className="mt-3 space-y-3">
          <Shown key={picture.seq} picture={picture} className="mx-auto max-h-[70dvh] w-full rounded-lg object-contain" />
          <div className="flex flex-wrap items-center gap-x-3 gap-y-2">
            <p className="mr-auto text-muted tabular-nums max-sm:w-full">
              {picture.widthPx} × {picture.heightPx} · looked at {ago(picture.at, clock.now())}
            </p>
            <a
              href={picture.url}
              target="_blank"
              rel="noreferrer"
              className="inline-flex min-h-9 items-center gap-1.5 rounded-lg px-2 text-muted underline-offset-4 hover:text-text hover:underline"
            >
              <ExternalLink aria-hidden className="size-3.5" /> Open it<span className="sr-only"> in another tab</span>
            </a>
            {pictures.length > 1 && (
              <>
                <Button kind="quiet" aria-label="The one before" className="px-2" aria-disabled={at === 0} onClick={() => go(-1)}>
                  <ChevronLeft aria-hidden className="size-4" />
                </Button>
                <span className="text-muted tabular-nums" role="status">
                  <span className="sr-only">{timeOf(picture)}, </span>
                  {at + 1} of {pictures.length}
                </span>
                <Button kind="quiet" aria-label="The next" className="px-2" aria-disabled={at === pictures.length - 1} onClick={() => go(1)}>
                  <ChevronRight aria-hidden className="size-4" />
                </Button>
              </>
            )}
          </div>
        </div>
      </Dialog>
    </div>
  );
}

/** The picture itself, or that it is not there any more. */
function Shown({ picture, className, isSmall = false }: { picture: Picture; className: string; isSmall?: boolean }) {
  const { url, widthPx, heightPx } = picture;
  const [isLost, setLost] = useState(false);
  const what = `The page at ${timeOf(picture)}`;
  if (isLost)
    return (
      <span className={isSmall ? 'grid h-20 w-32 place-items-center' : 'grid min-h-40 place-items-center gap-2 rounded-lg bg-sunken p-6 text-muted'}>
        <ImageOff aria-hidden className="size-5" />
        <span className={isSmall ? 'sr-only' : ''}>{what}: this picture cannot be read just now.</span>
      </span>
    );
  return (
    <img
      src={url}
      alt={what}
      width={isSmall ? Math.min(SMALL_PX, Math.round((80 * widthPx) / heightPx)) : widthPx}
      height={isSmall ? 80 : heightPx}
      loading={isSmall ? 'lazy' : 'eager'}
      decoding="async"
      className={`bg-sunken ${className}`}
      onError={() => setLost(true)}
    />
  );
}
