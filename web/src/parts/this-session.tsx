import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useEffect, useRef, useState } from 'react';
import { ask, command, Problem, type Schemas, type SessionView } from '../api/client';
import { budgetOf, inPercent, LIMITS, type Limits as Asked, type Typed, typedOf } from '../api/this-session';
import { isNear, linesOfSpent, spentWords } from '../api/usage';
import { bytes } from '../api/words';
import { Allowed } from './allowed';
import { Dialog } from './dialog';
import { Field, useFirstWrong } from './field';
import { Measure } from './measure';
import { Part } from './part';
import { Past } from './past';
import { Said } from './said';
import { SetRow } from './set-row';

interface Props {
  session: SessionView;
  /** Whether it is opened for where the session can go back to. */
  isPastMeant: boolean;
  close: () => void;
}

/** What holds for all of a session: what it used and may use, what its agents may do, where it can go back to, what went along. */
export function ThisSession({ session, isPastMeant, close }: Props) {
  return (
    <Dialog title="This session" close={close} className="max-w-2xl">
      <div className="mt-3 space-y-7">
        <Used session={session} />
        <Allowed session={session} />
        <Past session={session} isMeant={isPastMeant} leave={close} />
        <Along session={session} />
      </div>
    </Dialog>
  );
}

/** Read something of a session, and again whenever something happened in it. */
function useOf<T>({ id, seq }: SessionView, what: string) {
  const client = useQueryClient();
  const queryKey = [what, id];
  useEffect(() => void client.invalidateQueries({ queryKey: [what, id] }), [client, what, id, seq]);
  return useQuery<T, Problem>({ queryKey, queryFn: () => ask(`/v1/sessions/${id}/${what}`), staleTime: 0 });
}

function Used({ session }: { session: SessionView }) {
  const usage = useOf<Schemas['SessionUsage']>(session, 'usage');
  const { data } = usage;
  return (
    <Part name="Used so far">
      <Said problem={usage.error} />
      {data ? (
        <>
          <ul className="grid gap-x-8 gap-y-4 sm:grid-cols-2">
            {linesOfSpent(data).map((line) => (
              <Measure key={line.name} line={line} isNear={isNear(line, data.budget.warnAt)} />
            ))}
          </ul>
          {Boolean(data.spent.unpricedTokens) && <p className="text-sm text-muted">The dollars do not hold all of the tokens: the price of some models is not known.</p>}
          {data.parts.length > 0 && <ByWhom parts={data.parts} />}
          <Limits session={session} budget={data.budget} />
        </>
      ) : (
        !usage.error && <p className="text-sm text-muted">One moment…</p>
      )}
    </Part>
  );
}

function ByWhom({ parts }: { parts: readonly Schemas['UsagePart'][] }) {
  const names = { sandbox: 'Sandboxes', render: 'Renders', model: 'A model' };
  return (
    <details className="text-sm">
      <summary className="min-h-6 w-fit cursor-pointer text-muted">By whom</summary>
      <ul aria-label="By whom" className="mt-1 space-y-1">
        {parts.map(({ kind, agent, model, count, spent }) => (
          <li key={`${kind} ${agent} ${model}`} className="flex flex-wrap justify-between gap-x-4">
            <span className="wrap-anywhere">{[agent, model].filter(Boolean).join(' · ') || names[kind]}</span>
            <span className="text-muted tabular-nums">{[`${count} times`, spentWords(spent)].filter(Boolean).join(' · ')}</span>
          </li>
        ))}
      </ul>
    </details>
  );
}

function Limits({ session, budget }: { session: SessionView; budget: Schemas['Budget'] }) {
  const client = useQueryClient();
  const [typed, setTyped] = useState<Typed>({});
  const [said, setSaid] = useState('');
  const setting = useMutation<unknown, Problem, Asked>({
    mutationFn: (limits) =>
      command(session, 'budget', limits).catch((problem: unknown) => {
        throw problem instanceof Problem ? inPercent(problem) : problem;
      }),
    onSuccess: async () => {
      // before anything else is set: what is sent twice for the same state is the same command
      await Promise.all([['session', session.id], ['usage', session.id]].map((queryKey) => client.invalidateQueries({ queryKey })));
      setTyped({});
      setSaid('The limits hold from now on.');
    },
  });
  const form = useRef<HTMLFormElement>(null);
  useFirstWrong(form, setting.error);
  const set = (event: FormEvent) => {
    event.preventDefault();
    setSaid('');
    if (!setting.isPending) setting.mutate(budgetOf(typed, budget));
  };
  return (
    <details className="text-sm" open={session.state.paused?.account === session.id || undefined}>
      <summary className="min-h-6 w-fit cursor-pointer text-accent">Set limits</summary>
      {/* what is wrong with a number the server says */}
      <form ref={form} noValidate onSubmit={set} className="mt-2 space-y-3">
        <p className="text-muted">For all of the session, with what it used by now. Once one is reached you are asked; work that waits for more goes on. One that you empty is taken away: then the server's own holds, if it has one.</p>
        <div className="grid grid-cols-2 gap-3 sm:grid-cols-3">
          {LIMITS.map(([name, words]) => (
            <Field
              key={name}
              label={words}
              isNumber
              className="field py-1.5 tabular-nums"
              placeholder={name === 'warnAt' ? '80' : 'no limit'}
              problem={setting.error}
              name={name}
              value={typed[name] ?? typedOf(name, budget)}
              set={(value) => setTyped({ ...typed, [name]: value })}
            />
          ))}
        </div>
        <SetRow name="Set them" isIdle={setting.isPending} said={said} problem={setting.error} except={LIMITS.map(([name]) => name)} />
      </form>
    </details>
  );
}

function Along({ session }: { session: SessionView }) {
  const { data, error } = useOf<Schemas['AssetPage']>(session, 'assets');
  if (!error && !data?.assets.length) return null;
  return (
    <Part name="What went along">
      <Said problem={error} />
      <ul aria-label="What went along" className="space-y-1 text-sm">
        {data?.assets.map(({ id, name, fileUrl, sizeBytes, mediaType }) => (
          <li key={id} className="flex flex-wrap justify-between gap-x-4">
            <a href={fileUrl} target="_blank" rel="noreferrer" className="min-h-6 wrap-anywhere text-accent underline underline-offset-4">
              {name}
            </a>
            <span className="text-muted">
              {mediaType} · {bytes(sizeBytes)}
            </span>
          </li>
        ))}
      </ul>
    </Part>
  );
}
