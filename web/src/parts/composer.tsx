import { useMutation, useQueryClient } from '@tanstack/react-query';
import { ArrowUp } from 'lucide-react';
import { type ClipboardEvent, type DragEvent, type FormEvent, type KeyboardEvent, useRef, useState } from 'react';
import { useLocation } from 'wouter';
import { ask, newKey, Problem, type Schemas } from '../api/client';
import { Attach, Files, useFiles } from './attached';
import { Button } from './button';
import { NoModel } from './director';
import { Said } from './said';

const EXAMPLES = [
  'A bouncing ball that comes to rest',
  'A bar chart that grows, one bar after the other',
  'A title that flies in: Good morning',
  'A clock whose hands race through a day',
  'A planet with two moons',
  'A heart that beats',
];

/** Where an animation begins: a sentence, how long, which shape, and files to make it with. */
export function Composer() {
  const [prompt, setPrompt] = useState('');
  const [duration, setDuration] = useState('');
  const [aspect, setAspect] = useState('');
  const [fps, setFps] = useState('');
  const [takes, setTakes] = useState('');
  const [isOver, setOver] = useState(false);
  const files = useFiles();
  const sent = useRef({ key: '', body: '' });
  const [, go] = useLocation();
  const client = useQueryClient();
  const making = useMutation<string, Problem>({
    mutationFn: async () => {
      const options = {
        ...(duration ? { duration: Number(duration) } : {}),
        ...(aspect ? { aspect } : {}),
        ...(fps ? { fps: Number(fps) } : {}),
      };
      const body = { prompt, options, assetIds: files.ids, ...(takes ? { takes: Number(takes) } : {}) };
      const said = JSON.stringify(body);
      // an answer that was lost may have been a yes: what is sent again unchanged is the same request
      if (sent.current.body !== said) sent.current = { key: newKey(), body: said };
      const request = { method: 'POST', key: sent.current.key, body };
      if (takes) return `/t/${(await ask<Schemas['TakesCreated']>('/v1/takes', request)).group}`;
      return `/s/${(await ask<Schemas['SessionCreated']>('/v1/sessions', request)).sessionId}`;
    },
    onSuccess: (place) => {
      sent.current = { key: '', body: '' };
      void client.invalidateQueries({ queryKey: ['sessions'] });
      go(place);
    },
    onError: ({ status }) => {
      if (status >= 400 && status < 500) sent.current = { key: '', body: '' };
    },
  });
  const send = (event?: FormEvent) => {
    event?.preventDefault();
    if (prompt.trim() && !making.isPending && !files.isBusy) making.mutate();
  };
  const dropped = (event: DragEvent) => {
    if (!event.dataTransfer.types.includes('Files')) return;
    event.preventDefault();
    setOver(event.type === 'dragover');
    if (event.type === 'drop') files.add(event.dataTransfer.files);
  };
  const pasted = (event: ClipboardEvent) => {
    if (event.clipboardData.files.length === 0) return;
    event.preventDefault();
    files.add(event.clipboardData.files);
  };
  const keys = (event: KeyboardEvent) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) send();
  };
  return (
    <form onSubmit={send} className="mx-auto max-w-3xl pt-6 sm:pt-12" aria-labelledby="make">
      <h1 id="make" className="text-center text-3xl font-semibold tracking-tight sm:text-4xl">
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
          onChange={(event) => setPrompt(event.target.value)}
          onKeyDown={keys}
          onPaste={pasted}
          aria-invalid={making.isError}
          aria-describedby={making.isError ? 'prompt-said' : undefined}
        />
        <Files files={files} />
        <div className="flex flex-wrap items-center gap-2 px-1 pb-1">
          <div className="grid w-full grid-cols-2 gap-2 sm:flex sm:w-auto">
            <Choice label="Length" value={duration} set={setDuration} options={[['', 'Any length'], ['3', '3 s'], ['5', '5 s'], ['10', '10 s'], ['20', '20 s'], ['30', '30 s']]} />
            <Choice label="Shape" value={aspect} set={setAspect} options={[['', 'Any shape'], ['16:9', '16:9 wide'], ['1:1', '1:1 square'], ['9:16', '9:16 tall'], ['4:5', '4:5']]} />
            <Choice label="Frames per second" value={fps} set={setFps} options={[['', 'Any fps'], ['24', '24 fps'], ['30', '30 fps'], ['60', '60 fps']]} />
            <Choice label="Takes" value={takes} set={setTakes} options={[['', 'One take'], ['2', '2 takes'], ['3', '3 takes'], ['4', '4 takes']]} />
          </div>
          <span className="sm:flex-1" />
          <Attach files={files} />
          <Button
            kind="main"
            type="submit"
            className="flex-1 sm:flex-none"
            disabled={!prompt.trim() || making.isPending || files.isBusy}
            title="Ctrl+Enter"
          >
            <ArrowUp aria-hidden className="size-4" /> {making.isPending ? 'Beginning…' : 'Make it'}
          </Button>
        </div>
      </div>
      <div className="mt-3">
        <Said problem={making.error} id="prompt-said" />
      </div>
      <ul className="mt-4 flex flex-wrap justify-center gap-2" aria-label="Examples">
        {EXAMPLES.map((each) => (
          <li key={each}>
            <button
              type="button"
              onClick={() => setPrompt(each)}
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
      {options.map(([each, words]) => (
        <option key={each} value={each}>
          {words}
        </option>
      ))}
    </select>
  );
}
