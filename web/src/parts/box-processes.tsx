import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Square, X } from 'lucide-react';
import { type FormEvent, type RefObject, useEffect, useRef, useState } from 'react';
import { ask, Problem, type Schemas, unlessGone } from '../api/client';
import { follow } from '../api/following';
import { readable, withMore } from '../api/output';
import { addressOf, type Box, type Process, processWords } from '../api/sandboxes';
import { numberOf } from '../api/typed';
import { seconds } from '../api/words';
import { AskAgain } from './ask-again';
import { OwnTab } from './box-project';
import { Button } from './button';
import { useDraft } from './draft';
import { Field, useFirstWrong } from './field';
import { Said } from './said';
import { Sure } from './sure';

const OUTPUT = 'max-h-80 overflow-auto rounded-lg bg-sunken p-3 text-xs whitespace-pre-wrap wrap-anywhere';

/** What runs in a sandbox, what it writes, and what is to run. */
export function Processes({ box }: { box: Box }) {
  const client = useQueryClient();
  const key = ['box processes', box.id];
  const found = useQuery<Process[], Problem>({
    queryKey: key,
    queryFn: async ({ signal }) => (await ask<Schemas['ProcessList']>(`${addressOf(box.id, 'processes')}?all=true`, { signal })).processes,
    staleTime: 0,
    retry: false,
  });
  const [said, say] = useState('');
  const [open, setOpen] = useState('');
  const reread = () => client.invalidateQueries({ queryKey: key });
  const commands = useRef<HTMLFormElement>(null);
  return (
    <div className="space-y-4 text-sm">
      <AskAgain what="The processes" found={found} />
      <p role="status" className="sr-only">
        {said}
      </p>
      {found.data?.length === 0 && <p className="text-muted">Nothing was started yet.</p>}
      {found.data && found.data.length > 0 && (
        <ul aria-label="Processes" className="space-y-3">
          {found.data.map((each) => (
            <ProcessRow
              key={`${each.name} ${each.createdAt}`}
              process={each}
              isOpen={open === each.name}
              turn={(isOpen) => setOpen((before) => (isOpen ? each.name : before === each.name ? '' : before))}
              ended={() => void reread()}
              killed={() => {
                say(`${each.name} has ended`);
                commands.current?.querySelector('input')?.focus({ preventScroll: true });
                void reread();
              }}
            />
          ))}
        </ul>
      )}
      <Commands
        form={commands}
        box={box}
        started={(name) => {
          say(`${name} runs`);
          setOpen(name);
          return reread();
        }}
      />
      <Port box={box} />
    </div>
  );
}

interface RowProps {
  process: Process;
  isOpen: boolean;
  turn: (isOpen: boolean) => void;
  ended: () => void;
  killed: () => void;
}

function ProcessRow({ process, isOpen, turn, ended, killed }: RowProps) {
  const { name, command, state, sandboxId } = process;
  const [asked, setAsked, opener] = useDraft();
  const killing = useMutation<void, Problem>({
    mutationFn: () => ask<void>(addressOf(sandboxId, 'processes', encodeURIComponent(name)), { method: 'DELETE' }).catch(unlessGone),
    onSuccess: killed,
  });
  const runs = state === 'running';
  const what = runs ? 'End' : 'Forget';
  const colour = runs ? 'text-good' : process.exitCode === 0 ? 'text-muted' : 'text-bad';
  return (
    <li className="rounded-xl border border-line px-3 py-2">
      <div className="flex items-center gap-3">
        <p className="min-w-0 flex-1">
          <span className="font-medium">{name}</span>
          <span className={`ml-3 ${colour}`}>
            <span aria-hidden className="mr-2 mb-0.5 inline-block size-1.5 rounded-full bg-current align-middle" />
            {processWords(process)}
          </span>
          <code className="block truncate text-xs text-muted" title={command}>
            {command}
          </code>
        </p>
        {asked === undefined && (
          <Button ref={opener} kind="quiet" className="min-h-9 py-1.5" aria-label={`${what} ${name}`} onClick={() => setAsked('')}>
            {runs ? <Square aria-hidden className="size-4" /> : <X aria-hidden className="size-4" />} {what}
          </Button>
        )}
      </div>
      {asked !== undefined && (
        <Sure
          label={`${what} ${name}`}
          yes={`${what} it`}
          no="Keep it"
          problem={killing.error}
          busy={killing.isPending}
          act={() => killing.mutate()}
          leave={() => {
            killing.reset();
            setAsked(undefined);
          }}
        >
          {runs ? 'It ends with all that it started, and what it wrote is forgotten.' : 'What it wrote is forgotten.'}
        </Sure>
      )}
      <details open={isOpen} onToggle={({ currentTarget }) => turn(currentTarget.open)}>
        <summary className="min-h-6 w-fit cursor-pointer text-muted">
          What it wrote<span className="sr-only">: {name}</span>
        </summary>
        {isOpen && <Output process={process} ended={ended} />}
      </details>
    </li>
  );
}

/** What a process writes, as it comes, while somebody looks. */
function Output({ process, ended }: { process: Process; ended: () => void }) {
  const { sandboxId, name, state } = process;
  const [written, setWritten] = useState('');
  const [isRead, setRead] = useState(false);
  const [problem, setProblem] = useState<Problem>();
  const box = useRef<HTMLPreElement>(null);
  const isAtEnd = useRef(true);
  const now = useRef({ ended, state });
  now.current = { ended, state };
  useEffect(() => {
    const following = new AbortController();
    const heard = ({ event, data }: { event: string; data: string }) => {
      const { text = '' } = JSON.parse(data) as Schemas['ProcessOutput'];
      setWritten((before) => withMore(before, text));
      if (event !== 'end') return false;
      setRead(true);
      if (now.current.state === 'running') now.current.ended();
      return true;
    };
    void follow(addressOf(sandboxId, 'processes', encodeURIComponent(name), 'events'), { heard, opened: () => setRead(true), refused: setProblem }, following.signal);
    return () => following.abort();
  }, [sandboxId, name]);
  useEffect(() => {
    const { current: shown } = box;
    if (shown && isAtEnd.current) shown.scrollTop = shown.scrollHeight;
  }, [written]);
  const text = readable(written);
  if (problem) return <Said problem={problem} />;
  return (
    <pre
      ref={box}
      role="log"
      aria-label={`What ${name} wrote`}
      tabIndex={0}
      className={`mt-1 mb-1 ${OUTPUT}`}
      onScroll={({ currentTarget: { scrollTop, scrollHeight, clientHeight } }) => (isAtEnd.current = scrollHeight - scrollTop - clientHeight < 24)}
    >
      {text || <span className="text-muted">{isRead ? 'Nothing by now' : 'One moment…'}</span>}
    </pre>
  );
}

const EMPTY = { command: '', name: '', cwd: '', timeout: '' };

interface CommandsProps {
  form: RefObject<HTMLFormElement | null>;
  box: Box;
  started: (name: string) => Promise<unknown>;
}

/** A line to be run: to its end, or under a name for as long as it likes. */
function Commands({ form, box, started }: CommandsProps) {
  const [typed, setTyped] = useState(EMPTY);
  const isNamed = typed.name.trim() !== '';
  const put = (what: Partial<typeof EMPTY>) => setTyped({ ...typed, ...what });
  const running = useMutation<Schemas['CommandOutput'], Problem>({
    mutationFn: () => {
      const { command, cwd, timeout } = typed;
      const more = { ...(cwd.trim() ? { cwd: cwd.trim() } : {}), ...(timeout.trim() ? { timeoutS: numberOf(timeout) } : {}) };
      return ask(addressOf(box.id, 'commands'), { method: 'POST', body: { command, ...more } });
    },
  });
  const starting = useMutation<Process, Problem>({
    mutationFn: () => ask(addressOf(box.id, 'processes'), { method: 'POST', body: { name: typed.name.trim(), command: typed.command } }),
    onSuccess: async ({ name }) => {
      setTyped(EMPTY);
      await started(name);
    },
  });
  const isBusy = running.isPending || starting.isPending;
  const problem = running.error ?? starting.error;
  useFirstWrong(form, problem);
  const run = (event: FormEvent) => {
    event.preventDefault();
    if (isBusy) return;
    running.reset();
    starting.reset();
    (isNamed ? starting : running).mutate();
  };
  return (
    <form ref={form} noValidate onSubmit={run} className="space-y-3 border-t border-line pt-4">
      <div className="grid gap-3 sm:grid-cols-[minmax(0,2fr)_minmax(0,1fr)]">
        <Field label="Command" problem={problem} name="command" value={typed.command} set={(command) => put({ command })} placeholder="npm test" autoComplete="off" className="field py-1.5 font-mono text-xs leading-5" />
        <Field label="Name, to have it go on" problem={problem} name="name" value={typed.name} set={(name) => put({ name })} placeholder="none: run it to its end" autoComplete="off" />
      </div>
      {!isNamed && (
        <details>
          <summary className="min-h-6 w-fit cursor-pointer text-accent">Where, and for how long</summary>
          <div className="mt-2 grid gap-3 sm:grid-cols-2">
            <Field label="In the folder" problem={problem} name="cwd" value={typed.cwd} set={(cwd) => put({ cwd })} placeholder="the project itself" autoComplete="off" />
            <Field label="For at most, in seconds" isNumber problem={problem} name="timeoutS" value={typed.timeout} set={(timeout) => put({ timeout })} placeholder="30" />
          </div>
        </details>
      )}
      <Said problem={problem} except={isNamed ? ['command', 'name'] : ['command', 'cwd', 'timeoutS']} />
      <Button type="submit" aria-disabled={isBusy} className="py-2 aria-disabled:opacity-60">
        {isBusy ? 'Running…' : isNamed ? 'Start it' : 'Run it'}
      </Button>
      {running.data && <Ran ran={running.data} />}
    </form>
  );
}

function Ran({ ran: { exitCode, stdout, stderr, durationS, truncated } }: { ran: Schemas['CommandOutput'] }) {
  const told = [readable(stdout), readable(stderr)];
  return (
    <div className="space-y-2">
      <p role="status" className={exitCode === 0 ? 'text-good' : 'text-bad'}>
        Ended with {exitCode} after {seconds(durationS)}
        {truncated && ': the middle of what it wrote is left out'}
      </p>
      {(['What it wrote', 'What it wrote of errors'] as const).map(
        (name, at) =>
          told[at] && (
            <pre key={name} aria-label={name} tabIndex={0} className={OUTPUT}>
              {told[at]}
            </pre>
          ),
      )}
    </div>
  );
}

/** What a process serves is seen by its port; and the desktop of a sandbox that has one. */
function Port({ box }: { box: Box }) {
  const [port, setPort] = useState('');
  const opening = useMutation<Schemas['PreviewLink'], Problem, 'port' | 'desktop'>({
    mutationFn: (what) => ask(what === 'port' ? addressOf(box.id, 'ports', encodeURIComponent(port.trim() || '0')) : addressOf(box.id, 'desktop'), { method: 'POST' }),
  });
  const form = useRef<HTMLFormElement>(null);
  useFirstWrong(form, opening.error);
  const open = (what: 'port' | 'desktop') => opening.isPending || opening.mutate(what);
  return (
    <details className="border-t border-line pt-4">
      <summary className="min-h-6 w-fit cursor-pointer text-accent">See what a process serves</summary>
      <form
        ref={form}
        noValidate
        className="mt-2 space-y-3"
        onSubmit={(event) => {
          event.preventDefault();
          open('port');
        }}
      >
        <div className="flex flex-wrap items-end gap-2">
          <div className="w-28">
            <Field label="Port" isNumber problem={opening.error} name="port" value={port} set={setPort} placeholder="3000" className="field min-h-10 py-1.5" />
          </div>
          <Button type="submit" className="py-1 aria-disabled:opacity-60" aria-disabled={opening.isPending}>
            See it
          </Button>
          <Button kind="quiet" className="py-1 aria-disabled:opacity-60" aria-disabled={opening.isPending} title="Of a sandbox whose template has one" onClick={() => open('desktop')}>
            See its desktop
          </Button>
        </div>
        <Said problem={opening.error} except={['port']} />
        {opening.data && <OwnTab url={opening.data.url} />}
      </form>
    </details>
  );
}
