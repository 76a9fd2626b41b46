import { type FormEvent, useEffect, useId, useRef, useState } from 'react';
import { isForWords, isUnanswered } from '../../node/src/session';
import type { SessionView } from '../api/client';
import { useKept } from '../api/kept';
import type { Sent } from '../screens/session';
import { Button } from './button';
import { useAnswered } from './field';
import { isForThePage, sendByKeys } from './keys';
import { leftToSay, TURN_SAID } from './turned';

const NO_ANSWER = { to: '', option: '', words: '' };

interface Props extends Sent {
  session: SessionView;
  /** Whether numbers choose an answer, where it is the only question there is. */
  hasKeys?: boolean;
  /** What names the answer to what was refused. */
  said?: string;
  className?: string;
}

/** What agents ask: one of their answers, own words, or both. */
export function Question({ session, send, busy, refused, hasKeys = false, said: named = TURN_SAID, className = 'card p-5' }: Props) {
  const question = session.state.question;
  const [kept, keep] = useKept(session.id, 'answer', NO_ANSWER);
  const { option, words } = kept.to === question?.text ? kept : NO_ANSWER;
  const put = useRef((_: Partial<typeof NO_ANSWER>) => {});
  put.current = (what) => keep({ to: question?.text ?? '', option, words, ...what });
  const form = useRef<HTMLFormElement>(null);
  const field = useRef<HTMLInputElement>(null);
  const [lacks, setLacks] = useState(false);
  const lacking = useId();
  const options = question?.options ?? [];
  const isOwn = (id: string) => isForWords(question, id);
  const own = options.find(({ id }) => isOwn(id));
  const numbered = useRef(options);
  numbered.current = options;
  const forWords = useRef(own?.id);
  forWords.current = own?.id;
  useEffect(() => {
    if (!hasKeys) return;
    const chosen = (event: KeyboardEvent) => {
      const named = numbered.current[Number(event.key) - 1];
      if (!named || event.repeat || !isForThePage(event)) return;
      put.current({ option: named.id });
      if (named.id === forWords.current) {
        event.preventDefault(); // the key is typed nowhere
        field.current?.focus();
        return;
      }
      form.current?.querySelectorAll<HTMLInputElement>('input[type=radio]')[Number(event.key) - 1]?.focus(); // Enter sends
    };
    document.addEventListener('keydown', chosen);
    return () => document.removeEventListener('keydown', chosen);
  }, [hasKeys]);
  const isRefused = refused?.name === 'answer';
  const { marks, words: said } = useAnswered({
    problem: isRefused ? refused.problem : undefined,
    name: 'text',
    value: words,
    hint: isRefused && leftToSay(refused) ? named : undefined,
  });
  if (!question) return null;
  const isLacking = lacks && isUnanswered(question, option, words);
  const ownField = (label: string) => (
    <div>
      <input
        ref={field}
        aria-label={label}
        className="field"
        value={words}
        onChange={({ target }) => put.current({ words: target.value, ...(own ? { option: own.id } : {}) })}
        {...marks}
        {...(isLacking ? { 'aria-invalid': true, 'aria-describedby': lacking } : {})}
      />
      {isLacking && (
        <p role="alert" id={lacking} className="mt-1 text-sm text-bad">
          Say it in a few words: without any, nothing is sent.
        </p>
      )}
      {said}
    </div>
  );
  const answer = async (event: FormEvent) => {
    event.preventDefault();
    if (isUnanswered(question, option, words)) {
      setLacks(true);
      field.current?.focus();
      return;
    }
    const isChosen = option && !isOwn(option);
    const isSaid = words.trim() && !(own && isChosen); // what is typed at another option is that one's
    const sent = await send('answer', { ...(isChosen ? { optionId: option } : {}), ...(isSaid ? { text: words } : {}) });
    if (sent) keep((now) => (now.option === option && now.words === words ? NO_ANSWER : now));
  };
  return (
    <form ref={form} onSubmit={(event) => void answer(event)} onKeyDown={sendByKeys} className={`space-y-4 ${className}`}>
      <fieldset className="space-y-3">
        <legend className="mb-3 font-semibold">{question.text}</legend>
        {options.map((each, at) => (
          <div key={each.id} className="rounded-xl border border-line hover:border-line-strong has-checked:border-accent has-checked:bg-accent-ground">
            <label
              className="flex cursor-pointer gap-3 p-3.5"
              onClick={({ detail }) => {
                if (isOwn(each.id) && detail > 0) setTimeout(() => field.current?.focus()); // once the label has done what labels do
              }}
            >
              <input
                type="radio"
                name="option"
                className="mt-1 size-4 accent-(--accent)"
                checked={option === each.id}
                onChange={() => put.current({ option: each.id })}
              />
              <span className="flex-1">
                <span className="block font-medium">{each.label}</span>
                <span className="block text-sm text-muted">{each.description}</span>
              </span>
              {hasKeys && at < 9 && (
                <kbd aria-hidden className="hidden self-start rounded-md border border-line px-1.5 font-sans text-xs text-muted sm:block">
                  {at + 1}
                </kbd>
              )}
            </label>
            {isOwn(each.id) && <div className="px-3.5 pb-3.5">{ownField('In your own words')}</div>}
          </div>
        ))}
      </fieldset>
      {!own && (question.customInput || options.length === 0) && (
        <div className="space-y-1.5">
          <span aria-hidden className="block text-sm font-medium">
            {options.length ? 'Or in your own words' : 'Your answer'}
          </span>
          {ownField(options.length ? 'Or in your own words' : 'Your answer')}
        </div>
      )}
      <Button kind="main" type="submit" disabled={busy || !(option || words.trim())}>
        Answer
      </Button>
    </form>
  );
}
