import { useQuery } from '@tanstack/react-query';
import { Check, Pencil, Square, Undo2, X } from 'lucide-react';
import { type FormEvent, useId, useState } from 'react';
import { argumentsOf, argumentText, type Given, type TypedArguments } from '../api/arguments';
import { ask, Problem, type Schemas, type SessionView } from '../api/client';
import type { Sent } from '../screens/session';
import { Button } from './button';
import { sendByKeys } from './keys';
import { Said } from './said';
import { TURN_SAID } from './turned';

interface Props extends Sent {
  session: SessionView;
  call: Schemas['PendingCall'];
  /** What names the answer to what was refused. */
  said?: string;
  className?: string;
}

/** A tool call that waits for a person: what it would do, and whether it may. What cannot be read cannot be agreed to. */
export function Approval({ session, send, busy, refused, call, said = TURN_SAID, className = 'card p-5' }: Props) {
  const [heading, reason] = [useId(), useId()];
  const [why, setWhy] = useState('');
  const [typed, type] = useState<TypedArguments>();
  const asked = useQuery<Schemas['ApprovalView'] | null, Problem>({
    queryKey: ['approval', session.id, call.approvalId],
    queryFn: async () => {
      const { approvals } = await ask<Schemas['ApprovalPage']>(`/v1/sessions/${session.id}/approvals?pending=true`);
      return approvals.find((each) => each.id === call.approvalId) ?? null;
    },
  });
  const told = asked.data?.payload;
  const proposed = (told?.proposed ?? {}) as Given;
  const { given, wrong } = argumentsOf(proposed, typed ?? {});
  const canBeOther = Object.values(proposed).some((value) => isReadable(argumentText(value)));
  const behind = session.state.approvalsNext?.length ?? 0;
  const decide = (word: 'approve' | 'reject', body: object) => void send(`approvals/${call.approvalId}/${word}`, body);
  const isRefused = refused?.name.endsWith('/approve') === true;
  const refuse = (event: FormEvent) => {
    event.preventDefault();
    if (!busy) decide('reject', why.trim() ? { reason: why } : {});
  };
  return (
    <section className={`space-y-4 ${className}`} aria-labelledby={heading}>
      <div>
        <h2 id={heading} className="font-semibold wrap-anywhere">
          May koda run <code className="text-accent">{visible(call.name)}</code>?
        </h2>
        <p className="mt-1 text-sm wrap-anywhere text-muted">{visible([call.agent, call.reason].filter(Boolean).join(' · '))}</p>
      </div>
      <Said problem={asked.error} />
      {asked.data === null && <p className="text-sm text-muted">What it would run with is not there any more.</p>}
      {told && (
        <dl className="space-y-3">
          {Object.entries(proposed).map(([name, value]) => {
            const text = argumentText(value);
            return typed && isReadable(text) ? (
              <Field key={name} name={name} text={typed[name] ?? text} isWrong={wrong.includes(name)} said={isRefused ? said : undefined} set={(to) => type({ ...typed, [name]: to })} />
            ) : (
              <Part key={name} name={visible(name)} text={text} />
            );
          })}
          {typeof told.shown === 'string' && told.shown && <Part name={given ? 'What it would have changed, as it was proposed' : 'What it would change'} text={told.shown} isDiff />}
          {typeof told.done === 'string' && told.done && <Part name="What it has done so far" text={told.done} />}
        </dl>
      )}
      <div className="flex flex-wrap gap-2">
        <Button kind="main" onClick={() => decide('approve', given ? { arguments: given } : {})} disabled={busy || !told || wrong.length > 0}>
          <Check aria-hidden className="size-4" /> {given ? 'Approve as changed' : 'Approve'}
        </Button>
        {canBeOther && (
          <Button onClick={() => type(typed ? undefined : {})} disabled={busy} title={typed ? 'What was typed is left out' : 'Have it run with something else'}>
            {typed ? <Undo2 aria-hidden className="size-4" /> : <Pencil aria-hidden className="size-4" />} {typed ? 'As it was proposed' : 'Change it'}
          </Button>
        )}
        <Button onClick={() => void send('cancel')} disabled={busy} title="What is there is kept">
          <Square aria-hidden className="size-4" /> Stop
        </Button>
      </div>
      <form onSubmit={refuse} onKeyDown={sendByKeys} className="space-y-1.5 border-t border-line pt-4">
        <label htmlFor={reason} className="block text-sm font-medium">
          Why not? <span className="font-normal text-muted">Read by the agents; may stay empty.</span>
        </label>
        <div className="flex gap-2">
          <input
            id={reason}
            className="field min-w-0 flex-1"
            value={why}
            onChange={(event) => setWhy(event.target.value)}
            aria-describedby={refused?.name.endsWith('/reject') ? said : undefined}
          />
          <Button type="submit" disabled={busy}>
            <X aria-hidden className="size-4" /> Refuse
          </Button>
        </div>
      </form>
      {behind > 0 && (
        <p className="text-sm text-muted">
          {behind} more {behind === 1 ? 'waits' : 'wait'} behind this.
        </p>
      )}
    </section>
  );
}

/** An argument that is typed by whoever has the call run with another. */
function Field({ name, text, isWrong, said, set }: { name: string; text: string; isWrong: boolean; said: string | undefined; set: (text: string) => void }) {
  const id = useId();
  const described = [isWrong && `${id}-wrong`, said].filter(Boolean).join(' ');
  return (
    <div>
      <dt className="text-sm font-medium wrap-anywhere">
        <label htmlFor={id}>{visible(name)}</label>
      </dt>
      <dd className="mt-1">
        <textarea
          id={id}
          className="field max-h-60 min-h-10 resize-y font-mono text-xs leading-relaxed wrap-anywhere"
          rows={Math.min(text.split('\n').length, 10)}
          spellCheck={false}
          value={text}
          onChange={({ target }) => set(target.value)}
          aria-invalid={isWrong || said !== undefined || undefined}
          aria-describedby={described || undefined}
        />
        {isWrong && (
          <p role="alert" id={`${id}-wrong`} className="mt-1 text-sm text-bad">
            This is no JSON.
          </p>
        )}
      </dd>
    </div>
  );
}

function Part({ name, text, isDiff = false }: { name: string; text: string; isDiff?: boolean }) {
  return (
    <div>
      <dt className="text-sm font-medium wrap-anywhere">{name}</dt>
      <dd className="mt-1">
        <pre
          className="max-h-60 overflow-auto rounded-lg bg-sunken p-3 text-xs leading-relaxed wrap-anywhere whitespace-pre-wrap"
          tabIndex={0}
          role="group"
          aria-label={name}
        >
          {isDiff ? text.trimEnd().split('\n').map((line, at) => <DiffLine key={at} text={line} />) : visible(text)}
        </pre>
      </dd>
    </div>
  );
}

function DiffLine({ text }: { text: string }) {
  const colour = /^(\+\+\+|---|@@)/.test(text) ? 'text-muted' : text.startsWith('+') ? 'text-good' : text.startsWith('-') ? 'text-bad' : '';
  return <span className={`block min-h-[1lh] ${colour}`}>{visible(text)}</span>;
}

/** What a person agrees to has no letters that hide or turn others around: these are written out. */
function visible(text: string): string {
  return text.replace(/[^\P{C}\n\t]/gu, (letter) => `\\u{${letter.codePointAt(0)?.toString(16)}}`);
}

/** Whether all of it is seen where it is typed: what has letters that are written out stays as it was proposed. */
function isReadable(text: string): boolean {
  return visible(text) === text;
}
