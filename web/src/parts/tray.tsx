import { CircleDashed, MousePointerClick, X } from 'lucide-react';
import { type FormEvent, useEffect, useRef, useState, useSyncExternalStore } from 'react';
import { restOf } from '../../node/src/fields';
import { ask } from '../api/client';
import { type Draft, MOST, type Notes, whatIs } from '../api/notes';
import { timecode } from '../api/timecode';
import type { Refused, Sent } from '../screens/session';
import { Button } from './button';
import { useAnswered, useFirstWrong } from './field';
import { Key } from './keys';
import { WIDE } from './media';
import { Said } from './said';

const SAID = 'notes-said';
const NOTES = Array.from({ length: MOST }, (_, at) => `notes.${at}`);

/** What was pointed at, one note after the other: each says what should be different there, and they are sent together. */
export function Tray({ notes, send, busy, refused }: Omit<Sent, 'send'> & { notes: Notes; send: (notes: object[]) => Promise<boolean> }) {
  const list = useSyncExternalStore(notes.watch, () => notes.list);
  const [sending, setSending] = useState(false);
  const [sent, setSent] = useState<readonly number[]>([]);
  const form = useRef<HTMLFormElement>(null);
  useFirstWrong(form, refused?.problem);
  if (list.length === 0) return null;
  const written = list.filter(({ text }) => text.trim()).length;
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    if (busy || sending || written === 0) return;
    setSending(true); // its pictures may be on their way for a while, before anything is asked of the server
    const keys = list.map(({ key }) => key);
    setSent(list.filter(({ text }) => text.trim()).map(({ key }) => key));
    if (await send(await notes.written(keys))) notes.clear(keys);
    setSending(false);
  };
  const told = written < 2 ? 'the note' : `${written} notes`;
  return (
    <form ref={form} onSubmit={(event) => void submit(event)} className="card flex flex-col gap-4 p-5 lg:max-h-[calc(100dvh-2rem)]" aria-labelledby="notes">
      <h2 id="notes" className="font-semibold">
        Notes
      </h2>
      <ol className="min-h-0 space-y-4 lg:-m-1 lg:overflow-y-auto lg:p-1">
        {list.map((each, at) => (
          <One key={each.key} note={each} number={at + 1} notes={notes} refused={refused} name={`notes.${sent.indexOf(each.key)}`} isSent={sending} />
        ))}
      </ol>
      <Said problem={refused?.problem} id={SAID} except={NOTES} />
      <div className="flex flex-wrap gap-2">
        <Button kind="main" type="submit" disabled={busy || sending || written === 0}>
          {sending ? (
            <>
              <CircleDashed aria-hidden className="breathing size-4" /> Sending {told}…
            </>
          ) : (
            <>
              Send {told} <Key name="Ctrl Enter" />
            </>
          )}
        </Button>
        {list.length < MOST && (
          <Button kind="quiet" disabled={sending} onClick={() => notes.stage?.point()}>
            <MousePointerClick aria-hidden className="size-4" /> Point at something else
          </Button>
        )}
      </div>
      <p role="status" className="sr-only">
        {sending && `Sending ${told}`}
      </p>
    </form>
  );
}

interface OneProps {
  note: Draft;
  number: number;
  notes: Notes;
  refused: Refused | undefined;
  /** What the request that was sent last calls it. */
  name: string;
  /** Whether it is on its way, with the words that it has. */
  isSent: boolean;
}

function One({ note, number, notes, refused, name, isSent }: OneProps) {
  const answered = useAnswered({ problem: refused?.problem, name, value: note.text, hint: restOf(refused?.problem, NOTES) && SAID });
  const words = useRef<HTMLTextAreaElement>(null);
  useEffect(() => {
    if (notes.newest !== note.key) return;
    notes.newest = undefined;
    words.current?.focus({ preventScroll: true });
    const form = words.current?.form;
    const whole = window.matchMedia(WIDE).matches ? form : form?.querySelector('[type=submit]');
    whole?.scrollIntoView({ block: 'nearest' }); // with what sends it
    words.current?.scrollIntoView({ block: 'nearest' });
  }, [notes, note.key]);
  const remove = () => {
    notes.remove(note.key);
    if (note.picture) ask(`/v1/assets/${note.picture}`, { method: 'DELETE' }).catch(() => undefined); // it takes room, and nothing else
    notes.stage?.show(note);
  };
  return (
    <li className="space-y-1.5 text-sm">
      <div className="flex items-center gap-2.5">
        <span className="grid size-6 shrink-0 place-items-center rounded-full bg-accent text-xs font-medium text-on-accent tabular-nums">{number}</span>
        <span className="min-w-0 flex-1 truncate">{whatIs(note)}</span>
        <button
          type="button"
          className="min-h-7 rounded-lg px-1.5 text-muted tabular-nums hover:bg-sunken hover:text-text"
          title="Show this frame"
          onClick={() => notes.stage?.show(note)}
        >
          {timecode(note.time)}
          {note.until !== undefined && note.until !== null && ` – ${timecode(note.until)}`}
          <span className="sr-only">: show the frame of note {number}</span>
        </button>
        <button
          type="button"
          aria-label={`Remove note ${number}`}
          disabled={isSent}
          className="grid size-7 shrink-0 place-items-center rounded-lg text-muted hover:bg-sunken hover:text-text"
          onClick={remove}
        >
          <X aria-hidden className="size-4" />
        </button>
      </div>
      <textarea
        ref={words}
        aria-label={`What should be different, note ${number}`}
        placeholder="Red, larger, slower, remove it, other words…"
        rows={2}
        readOnly={isSent}
        className="field resize-none"
        value={note.text}
        onChange={({ target }) => notes.change(note.key, { text: target.value })}
        onKeyDown={(event) => {
          if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) event.currentTarget.form?.requestSubmit();
        }}
        {...answered.marks}
      />
      {answered.words}
    </li>
  );
}
