import { useMutation, useQueryClient } from '@tanstack/react-query';
import { ArrowUp } from 'lucide-react';
import { type ClipboardEvent, type DragEvent, type FormEvent, type KeyboardEvent, useEffect, useRef, useState } from 'react';
import { useLocation } from 'wouter';
import { ask, Problem, type Schemas } from '../api/client';
import { composing, isOnItsWay, useComposing } from '../api/composing';
import { whose } from '../api/owner';
import { LIMITS } from '../api/this-session';
import { useUploads } from '../api/uploads';
import { Attach, Files, useNamed } from './attached';
import { Button } from './button';
import { More } from './composer-more';
import { NoModel } from './director';
import { useAnswered, useFirstWrong } from './field';
import { Said } from './said';

const EXAMPLES = [
  'A bouncing ball that comes to rest',
  'A bar chart that grows, one bar after the other',
  'A title that flies in: Good morning',
  'Fireworks over a dark city',
  'A planet with two moons',
  'A heart that beats',
];

/** What says itself what is wrong with it, as the request names it. */
const FIELDS = ['prompt', 'style', 'projectId', 'options.duration', 'options.fps', 'permissions.rules', ...LIMITS.map(([name]) => `budget.${name}`)];

/** Where an animation begins: a sentence, how long, which shape, and files to make it with. */
export function Composer() {
  const { prompt, duration, aspect, fps, takes, files, problem } = useComposing();
  const going = useUploads('/');
  const isBusy = files.some((each) => isOnItsWay(each, going));
  const [isOver, setOver] = useState(false);
  const [, go] = useLocation();
  const client = useQueryClient();
  const isHere = useRef(true);
  const form = useRef<HTMLFormElement>(null);
  const typed = useAnswered({ problem, name: 'prompt', value: prompt });
  useFirstWrong(form, problem);
  useNamed();
  useEffect(() => {
    isHere.current = true;
    composing.restore();
    return () => {
      isHere.current = false;
    };
  }, []);
  const making = useMutation<string, Problem, typeof composing.body, string>({
    onMutate: whose,
    mutationFn: async (body) => {
      const request = { method: 'POST', key: composing.keyOf(body), body };
      if (body.takes) return `/t/${(await ask<Schemas['TakesCreated']>('/v1/takes', request)).group}`;
      return `/s/${(await ask<Schemas['SessionCreated']>('/v1/sessions', request)).sessionId}`;
    },
    onSuccess: (place, body, sender) => {
      if (sender === whose()) composing.made(body);
      for (const list of ['sessions', 'projects']) void client.invalidateQueries({ queryKey: [list] });
      if (isHere.current) go(place); // whoever looks at something else by now stays there
    },
    onError: (problem, _, sender) => composing.failed(problem, { isElsewhere: window.location.pathname !== '/', sender }),
  });
  const send = (event?: FormEvent) => {
    event?.preventDefault();
    if (prompt.trim() && !making.isPending && !isBusy) making.mutate(composing.body);
  };
  const dropped = (event: DragEvent) => {
    if (!event.dataTransfer.types.includes('Files')) return;
    event.preventDefault();
    setOver(event.type === 'dragover');
    if (event.type === 'drop') composing.attach(event.dataTransfer.files);
  };
  const pasted = (event: ClipboardEvent) => {
    if (event.clipboardData.files.length === 0) return;
    event.preventDefault();
    composing.attach(event.clipboardData.files);
  };
  const keys = (event: KeyboardEvent) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) send();
  };
  return (
    <form ref={form} noValidate onSubmit={send} className="mx-auto max-w-3xl pt-6 sm:pt-12" aria-labelledby="make">
      <h1 id="make" className="mx-auto text-center text-3xl font-semibold tracking-tight sm:text-4xl">
        What should move?
      </h1>
      <div
        className={`card mt-8 p-2 shadow-sm focus-within:border-accent ${isOver ? 'border-accent bg-accent-ground' : ''}`}
        onDragOver={dropped}
        onDragLeave={dropped}
        onDrop={dropped}
      >
        <textarea
          aria-label="What should move"
          className="block w-full resize-none rounded-xl bg-transparent px-3 py-2.5 text-lg outline-none placeholder:text-muted"
          rows={3}
          placeholder="A red ball bounces through the rain and comes to rest…"
          value={prompt}
          onChange={(event) => composing.put({ prompt: event.target.value })}
          onKeyDown={keys}
          onPaste={pasted}
          {...typed.marks}
        />
        {typed.words && <div className="px-3 pb-2">{typed.words}</div>}
        <Files files={files} going={going} />
        <div className="flex flex-wrap items-center gap-2 px-1 pb-1">
          <div className="grid w-full grid-cols-2 gap-2 sm:flex sm:w-auto">
            <Choice label="Length" value={duration} set={(duration) => composing.put({ duration })} options={[['', 'Any length'], ['3', '3 s'], ['5', '5 s'], ['10', '10 s'], ['20', '20 s'], ['30', '30 s']]} />
            <Choice label="Shape" value={aspect} set={(aspect) => composing.put({ aspect })} options={[['', 'Any shape'], ['16:9', '16:9 wide'], ['1:1', '1:1 square'], ['9:16', '9:16 tall'], ['4:5', '4:5']]} />
            <Choice label="Frames per second" value={fps} set={(fps) => composing.put({ fps })} options={[['', 'Any fps'], ['24', '24 fps'], ['30', '30 fps'], ['60', '60 fps']]} />
            <Choice label="Takes" value={takes} set={(takes) => composing.put({ takes })} options={[['', 'One take'], ['2', '2 takes'], ['3', '3 takes'], ['4', '4 takes']]} />
          </div>
          <span className="sm:flex-1" />
          <Attach />
          <Button
            kind="main"
            type="submit"
            className="flex-1 sm:flex-none"
            disabled={!prompt.trim() || making.isPending || isBusy}
            title="Ctrl+Enter"
          >
            <ArrowUp aria-hidden className="size-4" /> {making.isPending ? 'Beginning…' : 'Make it'}
          </Button>
        </div>
        <More />
      </div>
      <div className="mt-3">
        <Said problem={problem} except={FIELDS} />
      </div>
      <ul className="mt-4 flex flex-wrap justify-center gap-2" aria-label="Examples">
        {EXAMPLES.map((each) => (
          <li key={each}>
            <button
              type="button"
              onClick={() => composing.put({ prompt: each })}
              className="min-h-8 rounded-full border border-line bg-panel px-3.5 py-1.5 text-sm text-muted hover:border-line-strong hover:text-text"
            >
              {each}
            </button>
          </li>
        ))}
      </ul>
      <NoModel />
    </form>
  );
}

function Choice({ label, value, set, options }: { label: string; value: string; set: (value: string) => void; options: [string, string][] }) {
  return (
    <select
      aria-label={label}
      value={value}
      onChange={(event) => set(event.target.value)}
      className="min-h-10 min-w-0 flex-1 rounded-xl bg-sunken pr-6 pl-2.5 text-sm text-ellipsis text-text sm:flex-none sm:pr-8 sm:pl-3"
    >
      {!options.some(([each]) => each === value) && <option value={value}>{value}</option>}
      {options.map(([each, words]) => (
        <option key={each} value={each}>
          {words}
        </option>
      ))}
    </select>
  );
}
