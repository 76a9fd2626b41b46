import { useMutation, useQueryClient } from '@tanstack/react-query';
import { FileUp } from 'lucide-react';
import { type FormEvent, useRef, useState } from 'react';
import { useAct } from '../api/acts';
import { Attempt } from '../api/attempt';
import { ask, Problem } from '../api/client';
import { NOTHING_WANTED, optionsOf, PAGE_FORMATS, PRESETS, rowsOf, type Wanted, zipped } from '../api/own-page';
import { Button } from './button';
import { Choice, Chosen } from './chosen';
import { Dialog } from './dialog';
import { Field, useAnswered, useFirstWrong } from './field';
import { Said } from './said';

const NUMBERS = [
  ['width', 'Width, in pixels'],
  ['height', 'Height, in pixels'],
  ['fps', 'Frames each second'],
  ['duration', 'Length, in seconds'],
] as const;
/** Options with a field of their own. */
const NAMED = [...NUMBERS.map(([name]) => name), 'preset', 'format'] as const;
const FIELDS = ['file', 'options', 'rows'];

/** The way of a page of one's own to a video; it stands in the list once it is taken. */
export function OwnPage() {
  const [isOpen, setOpen] = useState(false);
  useAct('Render a page of your own', () => setOpen(true));
  return (
    <>
      <Button aria-haspopup="dialog" className="py-2 text-sm" onClick={() => setOpen(true)}>
        <FileUp aria-hidden className="size-4" /> Render a page
      </Button>
      {isOpen && <Rendering close={() => setOpen(false)} />}
    </>
  );
}

function Rendering({ close }: { close: () => void }) {
  const client = useQueryClient();
  const [page, setPage] = useState<File>();
  const [rows, setRows] = useState<File>();
  const [wanted, setWanted] = useState(NOTHING_WANTED);
  const [attempt] = useState(() => new Attempt());
  const rendering = useMutation<unknown, Problem, File>({
    mutationFn: async (file) => {
      const options = optionsOf(wanted);
      const form = new FormData();
      form.append('file', /\.html?$/i.test(file.name) ? zipped(new Uint8Array(await file.arrayBuffer())) : file, 'page.zip');
      form.append('options', JSON.stringify(options));
      if (rows) form.append('rows', JSON.stringify(rowsOf(rows.name, await rows.text())));
      const named = [file, rows].map((each) => each && [each.name, each.size, each.lastModified]);
      return ask(rows ? '/v1/renders/batches' : '/v1/renders', { method: 'POST', key: attempt.keyOf([named, options]), body: form });
    },
    onSettled: (_, problem) => attempt.ended(problem ?? undefined),
    onSuccess: () => {
      close();
      return client.invalidateQueries({ queryKey: ['renders'] });
    },
  });
  const render = (event: FormEvent) => {
    event.preventDefault();
    if (page && !rendering.isPending) rendering.mutate(page);
  };
  const problem = rendering.error;
  const form = useRef<HTMLFormElement>(null);
  useFirstWrong(form, problem);
  const isTyped = (name: (typeof NAMED)[number]) => wanted[name] !== '' || !wanted.other.includes(`"${name}"`); // else among the others
  const named = NAMED.filter(isTyped);
  const answer = (name: (typeof NAMED)[number]) => ({ problem: named.includes(name) ? problem : undefined, name: `options.${name}` });
  const other = useAnswered({ problem, name: 'options', value: wanted.other, except: named.map((name) => `options.${name}`) });
  const put = (what: Partial<Wanted>) => setWanted({ ...wanted, ...what });
  return (
    <Dialog title="Render a page of your own" close={close} className="max-w-2xl">
      <form ref={form} noValidate onSubmit={render} className="mt-1 space-y-4 text-sm">
        <p className="text-muted">Any web animation becomes a video, frame by frame: a page alone, or a zip of a built one with all that belongs to it.</p>
        <Chosen label="Choose a page or a zip" accept=".zip,.html,.htm" problem={problem} name="file" file={page} choose={setPage} />
        <div className="grid grid-cols-2 gap-3">
          <Choice label="Preset" usual="As the page is" options={PRESETS} {...answer('preset')} value={wanted.preset} set={(preset) => put({ preset })} />
          <Choice label="Format" usual="mp4, as usual" options={PAGE_FORMATS} {...answer('format')} value={wanted.format} set={(format) => put({ format })} />
        </div>
        <div className="grid grid-cols-2 gap-3 sm:grid-cols-4">
          {NUMBERS.map(([name, words]) => (
            <Field key={name} label={words} isNumber placeholder="its own" {...answer(name)} value={wanted[name]} set={(value) => put({ [name]: value })} />
          ))}
        </div>
        <details>
          <summary className="min-h-6 w-fit cursor-pointer text-accent">A video for each row of a file</summary>
          <div className="mt-2 space-y-2">
            <p className="text-muted">
              The page finds its row as <code>window.__kodaProps</code>.
            </p>
            <Chosen label="Choose JSON or CSV" accept=".json,.jsonl,.ndjson,.csv" problem={problem} name="rows" file={rows} choose={setRows} />
          </div>
        </details>
        <details>
          <summary className="min-h-6 w-fit cursor-pointer text-accent">Other options</summary>
          <label className="mt-2 block space-y-1">
            <span className="block text-muted">As JSON, such as a quality, what is transparent, which page of several, its data or its sound</span>
            <textarea
              className="field font-mono text-xs"
              rows={2}
              placeholder='{"alpha": true, "crf": 14, "entry": "film.html", "props": {"name": "Ada"}}'
              value={wanted.other}
              onChange={({ target }) => put({ other: target.value })}
              {...other.marks}
            />
          </label>
          {other.words}
        </details>
        <Said problem={problem} except={FIELDS} />
        <Button kind="main" type="submit" disabled={!page} aria-disabled={rendering.isPending} className="aria-disabled:opacity-60">
          {rendering.isPending ? 'Sending…' : 'Render'}
        </Button>
      </form>
    </Dialog>
  );
}
