import { MousePointerClick } from 'lucide-react';
import { useState } from 'react';
import { type Note, whatIs } from '../api/notes';
import type { Noted as Said } from '../api/pointed';
import { timecode } from '../api/timecode';

/** What there is to see of what was pointed at. */
export interface Moments {
  /** Shows the moment that a note is of, seconds into what was pointed at. */
  go: (at: number) => void;
  /** Where a frame of that is as a picture, as long as its video is there. */
  frameOf: (frame: number) => string | undefined;
}

/** What was said by pointing, as it was meant: each note with what it is of, which leads to its moment. */
export function Noted({ said: { words, notes }, ...moments }: Moments & { said: Said }) {
  return (
    <>
      {words && <p className="leading-relaxed wrap-anywhere whitespace-pre-wrap">{words}</p>}
      <ol aria-label="Notes" className="mt-1.5 space-y-2">
        {notes.map((note, at) => (
          <One key={at} note={note} number={at + 1} {...moments} />
        ))}
      </ol>
    </>
  );
}

function One({ note, number, go, frameOf }: Moments & { note: Note; number: number }) {
  const [missing, setMissing] = useState<readonly string[]>([]);
  const frame = typeof note.frame === 'number' ? frameOf(note.frame) : undefined;
  // what was sent along once was not kept for ever
  const picture = [note.picture && `/v1/assets/${note.picture}/file`, frame].find((each) => each && !missing.includes(each));
  const when = `${timecode(note.time)}${note.until === undefined || note.until === null ? '' : ` – ${timecode(note.until)}`}`;
  return (
    <li className="flex items-start gap-3">
      <button
        type="button"
        title="Show this moment"
        className="w-24 shrink-0 overflow-hidden rounded-lg border border-line bg-sunken text-xs text-muted hover:border-line-strong hover:text-text"
        onClick={() => go(note.time)}
      >
        <span className="relative grid h-14 place-items-center">
          {picture ? (
            <img key={picture} src={picture} alt="" loading="lazy" className="size-full max-h-14 object-contain" onError={() => setMissing([...missing, picture])} />
          ) : (
            <MousePointerClick aria-hidden className="size-4" />
          )}
          <span aria-hidden className="absolute top-1 left-1 grid size-5 place-items-center rounded-full bg-accent text-[0.6875rem] font-medium text-on-accent tabular-nums">{number}</span>
        </span>
        <span className="block px-1 py-1 tabular-nums">
          {when}
          <span className="sr-only">: show the moment of note {number}</span>
        </span>
      </button>
      <div className="min-w-0 flex-1">
        <p className="leading-relaxed wrap-anywhere whitespace-pre-wrap">{note.text}</p>
        <p className="wrap-anywhere text-muted">{whatIs(note)}</p>
      </div>
    </li>
  );
}
