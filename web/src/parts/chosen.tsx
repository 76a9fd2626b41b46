/** What is chosen rather than typed: a file, or one of several. Beneath each stands what the server answered to it. */
import { type DragEvent, useRef, useState } from 'react';
import type { Refusal } from '../../node/src/fields';
import { Button } from './button';
import { useAnswered } from './field';

interface ChosenProps {
  label: string;
  problem: Refusal;
  name: string;
  accept: string;
  file: File | undefined;
  choose: (file: File | undefined) => void;
}

/** A file that is chosen or dropped. */
export function Chosen({ label, accept, problem, name, file, choose }: ChosenProps) {
  const { isWrong, marks, words } = useAnswered({ problem, name, value: file });
  const input = useRef<HTMLInputElement>(null);
  const [isOver, setOver] = useState(false);
  const dropped = (event: DragEvent) => {
    if (!event.dataTransfer.types.includes('Files')) return;
    event.preventDefault();
    setOver(event.type === 'dragover');
    if (event.type === 'drop') choose(event.dataTransfer.files[0]);
  };
  return (
    <div>
      <div
        className={`flex flex-wrap items-center gap-3 rounded-xl border border-dashed border-line-strong p-3 ${isOver ? 'bg-accent-ground' : ''}`}
        onDragOver={dropped}
        onDragLeave={dropped}
        onDrop={dropped}
      >
        <Button className="py-2" aria-describedby={marks['aria-describedby']} data-wrong={isWrong || undefined} onClick={() => input.current?.click()}>
          {label}
        </Button>
        <span role="status" className="min-w-0 wrap-anywhere text-muted">
          {file ? file.name : 'or drop it here'}
        </span>
        <input ref={input} type="file" hidden accept={accept} onChange={({ target }) => choose(target.files?.[0])} />
      </div>
      {words}
    </div>
  );
}

interface ChoiceProps {
  label: string;
  problem: Refusal;
  name: string;
  /** What holds where nothing is chosen; none where something always is. */
  usual?: string;
  /** Each as it is sent, and where it is said otherwise, as it is said. */
  options: readonly (string | readonly [value: string, words: string])[];
  value: string;
  set: (value: string) => void;
}

export function Choice({ label, problem, name, usual, options, value, set }: ChoiceProps) {
  const { marks, words } = useAnswered({ problem, name, value });
  return (
    <div>
      <label className="block space-y-1">
        <span className="block">{label}</span>
        <select className="min-h-10 w-full rounded-xl bg-sunken pr-8 pl-3" value={value} onChange={({ target }) => set(target.value)} {...marks}>
          {usual !== undefined && <option value="">{usual}</option>}
          {options.map((each) => (typeof each === 'string' ? ([each, each] as const) : each)).map(([each, words]) => (
            <option key={each} value={each}>
              {words}
            </option>
          ))}
        </select>
      </label>
      {words}
    </div>
  );
}
