import { useMutation, useQueryClient } from '@tanstack/react-query';
import { X } from 'lucide-react';
import { type FormEvent, type KeyboardEvent, useId, useRef, useState } from 'react';
import type { Refusal } from '../../node/src/fields';
import { command, Problem, type SessionView } from '../api/client';
import { DECISIONS, MODES, type Permissions, type Rule, ruleWords } from '../api/this-session';
import { Button } from './button';
import { useAnswered, useFirstWrong } from './field';
import { Part } from './part';
import { SetRow } from './set-row';

const ALL = ['rules'];
const SMALL_FIELD = 'field min-w-0 py-1.5';

/** What a session's agents may do by themselves: changed here, and set together. */
export function Allowed({ session }: { session: SessionView }) {
  const client = useQueryClient();
  const [draft, setDraft] = useState<Permissions>();
  const [said, setSaid] = useState('');
  const { permissions } = session.state;
  const wanted = draft ?? { mode: permissions?.mode ?? 'auto', rules: permissions?.rules ?? [] };
  const setting = useMutation<unknown, Problem, Permissions>({
    mutationFn: (body) => command(session, 'permissions', body),
    onSuccess: async () => {
      await client.invalidateQueries({ queryKey: ['session', session.id] });
      setDraft(undefined);
      setSaid('Holds from their next step on.');
    },
  });
  const form = useRef<HTMLFormElement>(null);
  useFirstWrong(form, setting.error);
  const change = (what: Partial<Permissions>) => {
    setSaid('');
    setDraft({ ...wanted, ...what });
  };
  const set = (event: FormEvent) => {
    event.preventDefault();
    if (draft && !setting.isPending) setting.mutate(draft);
  };
  return (
    <Part name="What agents may do by themselves">
      <form ref={form} onSubmit={set} className="space-y-3 text-sm">
        <Modes mode={wanted.mode} choose={(mode) => change({ mode })} />
        <Rules problem={setting.error} name="rules" rules={wanted.rules} set={(rules) => change({ rules })} />
        <SetRow name="Set it" isIdle={!draft || setting.isPending} said={said} problem={setting.error} except={ALL} />
      </form>
    </Part>
  );
}

export function Modes({ mode, choose }: { mode: Permissions['mode']; choose: (mode: Permissions['mode']) => void }) {
  const name = useId();
  return (
    <fieldset className="grid gap-x-6 gap-y-1 sm:grid-cols-2">
      <legend className="sr-only">What agents may do by themselves</legend>
      {MODES.map(([each, words, means]) => (
        <label key={each} className="flex min-h-8 cursor-pointer items-baseline gap-2.5">
          <input type="radio" name={name} className="size-4 shrink-0 translate-y-0.5 accent-(--accent)" checked={each === mode} onChange={() => choose(each)} />
          <span>
            {words} <span className="text-muted">{means}</span>
          </span>
        </label>
      ))}
    </fieldset>
  );
}

interface RulesProps {
  problem: Refusal;
  /** What a request calls them. */
  name: string;
  rules: readonly Rule[];
  set: (rules: Rule[]) => void;
}

export function Rules({ problem, name, rules, set }: RulesProps) {
  const list = useRef<HTMLDetailsElement>(null);
  const [decision, setDecision] = useState<Rule['decision']>('deny');
  const [tool, setTool] = useState('');
  const [path, setPath] = useState('');
  const all = useAnswered({ problem, name, value: rules, except: rules.map((_, at) => `${name}.${at}`) });
  const add = () => {
    set([...rules, { decision, tool: tool.trim() || '*', ...(path.trim() ? { path: path.trim() } : {}) }]);
    setTool('');
    setPath('');
  };
  const keys = (event: KeyboardEvent) => {
    if (event.key !== 'Enter') return;
    event.preventDefault(); // what is typed here is a rule first
    add();
  };
  return (
    <details ref={list} open={rules.length > 0 || undefined}>
      <summary className="min-h-6 w-fit cursor-pointer text-accent" aria-describedby={all.marks['aria-describedby']} data-wrong={all.isWrong || undefined}>
        {rules.length === 0 ? 'Rules: none' : rules.length === 1 ? 'One rule' : `${rules.length} rules`}
      </summary>
      <ol aria-label="Rules" className="mt-1">
        {rules.map((rule, at) => (
          <Listed
            key={at}
            problem={problem}
            name={`${name}.${at}`}
            rule={rule}
            remove={() => {
              set(rules.filter((_, other) => other !== at));
              list.current?.querySelector('summary')?.focus(); // its button goes
            }}
          />
        ))}
      </ol>
      {all.words}
      <div role="group" aria-label="A new rule" className="mt-2 grid grid-cols-[auto_minmax(0,1fr)] gap-2 sm:grid-cols-[auto_minmax(0,1fr)_minmax(0,1fr)_auto]">
        <select
          aria-label="What the rule says"
          className="min-h-10 rounded-xl bg-sunken pr-8 pl-3"
          value={decision}
          onChange={({ target }) => setDecision(DECISIONS.find(([each]) => each === target.value)?.[0] ?? 'deny')}
        >
          {DECISIONS.map(([each, words]) => (
            <option key={each} value={each}>
              {words}
            </option>
          ))}
        </select>
        <input aria-label="Which tool" placeholder="any tool" className={SMALL_FIELD} value={tool} onChange={({ target }) => setTool(target.value)} onKeyDown={keys} />
        <input aria-label="In which files" placeholder="any file, such as src/koda/*" className={`${SMALL_FIELD} max-sm:col-span-2`} value={path} onChange={({ target }) => setPath(target.value)} onKeyDown={keys} />
        <Button className="justify-self-start py-1.5" onClick={add}>
          Add the rule
        </Button>
      </div>
    </details>
  );
}

/** A rule in the list; what is wrong with it is mended by removing it. */
function Listed({ problem, name, rule, remove }: { problem: Refusal; name: string; rule: Rule; remove: () => void }) {
  const { isWrong, marks, words } = useAnswered({ problem, name, value: rule });
  return (
    <li>
      <div className="flex items-center justify-between gap-3">
        <span className="wrap-anywhere">{ruleWords(rule)}</span>
        <button
          type="button"
          aria-label={`Remove the rule ${ruleWords(rule)}`}
          aria-describedby={marks['aria-describedby']}
          data-wrong={isWrong || undefined}
          title="Remove it"
          className="grid size-8 shrink-0 place-items-center rounded-lg text-muted hover:bg-sunken hover:text-text"
          onClick={remove}
        >
          <X aria-hidden className="size-4" />
        </button>
      </div>
      {words}
    </li>
  );
}
