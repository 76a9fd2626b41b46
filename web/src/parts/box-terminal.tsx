import { useQueryClient } from '@tanstack/react-query';
import { X } from 'lucide-react';
import { useEffect, useId, useRef, useState } from 'react';
import type { Box } from '../api/sandboxes';
import { Shell, shellWords, type Standing } from '../api/shell';
import { Button } from './button';
import { Emulator } from './emulator';
import { Said } from './said';

const READ = 'koda.terminal-read';

/** Whether a terminal says what it shows to who listens. */
const reading = {
  on: () => localStorage.getItem(READ) !== null,
  set: (on: boolean) => (on ? localStorage.setItem(READ, 'yes') : localStorage.removeItem(READ)),
};

interface Props {
  box: Box;
  name: string;
  close: () => void;
}

/** A shell in a sandbox, to type into: it begins as this is shown, and ends with it. */
export function BoxTerminal({ box, name, close }: Props) {
  const client = useQueryClient();
  const [standing, setStanding] = useState<Standing>({ is: 'beginning' });
  const [turn, setTurn] = useState(0);
  const [isRead, setRead] = useState(reading.on);
  const place = useRef<HTMLDivElement>(null);
  const leaving = useRef<HTMLButtonElement>(null);
  const drawn = useRef<{ emulator: Emulator; shell: Shell }>(undefined);
  const title = useId();
  const keys = useId();
  const first = useRef({ label: `Terminal of ${name}`, describedBy: keys, isRead });
  useEffect(() => {
    const { current } = place;
    if (!current) return;
    const reread = () => void client.invalidateQueries({ queryKey: ['box processes', box.id] });
    const emulator = new Emulator(current, first.current, {
      typed: (data) => shell.type(data),
      resized: (size) => shell.resize(size),
      leaves: () => leaving.current?.focus(),
    });
    const shell = new Shell(box.id, emulator.size, {
      shows: (data) => emulator.show(data),
      stands: (now) => {
        emulator.alive = now.is === 'open' || now.is === 'beginning';
        setStanding(now);
      },
      lists: reread,
    });
    drawn.current = { emulator, shell };
    const cutOff = () => shell.hangUp();
    const left = () => void shell.leave();
    window.addEventListener('offline', cutOff);
    window.addEventListener('pagehide', left);
    emulator.focus();
    void shell.begin();
    return () => {
      window.removeEventListener('offline', cutOff);
      window.removeEventListener('pagehide', left);
      emulator.close();
      void shell.leave().then(reread);
    };
  }, [box.id, client, turn]);
  const again = () => {
    drawn.current?.emulator.clear();
    drawn.current?.emulator.focus();
    drawn.current?.shell.connect();
  };
  const words = shellWords(standing);
  const problem = standing.is === 'refused' || (standing.is === 'lost' && standing.problem?.status) ? standing.problem : undefined; // that nobody answers is said at the top
  const isOver = standing.is === 'ended' || standing.is === 'gone' || standing.is === 'refused';
  return (
    <section aria-labelledby={title} className="card p-3 sm:p-5">
      <div className="mb-2 flex flex-wrap items-center gap-x-4">
        <h2 id={title} className="mr-auto text-sm text-muted">
          Terminal
        </h2>
        <label className="flex min-h-8 items-center gap-2.5 text-sm text-muted">
          <input
            type="checkbox"
            className="size-4 shrink-0 accent-(--accent)"
            checked={isRead}
            onChange={({ target }) => {
              reading.set(target.checked);
              setRead(target.checked);
              first.current.isRead = target.checked;
              if (drawn.current) drawn.current.emulator.read = target.checked;
            }}
          />
          For a screen reader
        </label>
        <Button ref={leaving} kind="quiet" className="-mr-2" aria-label="Close the terminal" onClick={close}>
          <X aria-hidden className="size-4" /> Close
        </Button>
      </div>
      <div ref={place} className="koda-terminal h-[min(26rem,60dvh)] rounded-lg p-2" />
      <div className="mt-2 flex flex-wrap items-center gap-x-4 gap-y-2 text-sm">
        <p role="status" className={words ? '' : 'sr-only'}>
          {words}
        </p>
        {standing.is === 'lost' && (
          <Button className="py-1" onClick={again}>
            Connect again
          </Button>
        )}
        {isOver && (
          <Button className="py-1" onClick={() => setTurn(turn + 1)}>
            {standing.is === 'refused' ? 'Try again' : 'Begin another'}
          </Button>
        )}
        {problem && (
          <div className="w-full">
            <Said problem={problem} />
          </div>
        )}
        <p id={keys} className={isOver || standing.is === 'lost' ? 'sr-only' : 'text-xs text-muted'}>
          Every key is the shell’s, Tab too: Ctrl M leads out of it.
        </p>
      </div>
    </section>
  );
}
