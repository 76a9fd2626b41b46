/** What a server answers to what was typed: its words stand beneath the field, which is marked, seen and gone to. */
import { type ReactNode, type RefObject, useEffect, useId, useRef } from 'react';
import { fieldOf, type Refusal } from './fields';

const WRONG = '[aria-invalid=true], [data-wrong]';

export interface Answering {
  problem: Refusal;
  /** As the request names it. */
  name: string;
  /** What is typed now: what was said is gone as soon as that is something else. */
  value: unknown;
  /** What has a field of its own, below this name. */
  except?: readonly string[];
  /** The id of what else describes it. */
  hint?: string | undefined;
  className?: string;
}

export interface Answered {
  isWrong: boolean;
  /** For the field. */
  marks: { 'aria-invalid'?: true; 'aria-describedby'?: string };
  /** To stand beneath it, outside its label. */
  words: ReactNode;
}

/** What was said of one field. */
export function useAnswered({ problem, name, value, except, hint, className }: Answering): Answered {
  const id = useId();
  const refused = useRef({ problem, value });
  if (refused.current.problem !== problem) refused.current = { problem, value };
  const said = refused.current.value === value ? fieldOf(problem, name, except) : undefined;
  const ids = [hint, said !== undefined && id].filter(Boolean).join(' ');
  return {
    isWrong: said !== undefined,
    marks: { ...(said === undefined ? {} : { 'aria-invalid': true }), ...(ids ? { 'aria-describedby': ids } : {}) },
    words: said !== undefined && (
      <p role="alert" id={id} className={className}>
        {said}
      </p>
    ),
  };
}

/** Have wrong fields seen, whatever is folded round them, and the first gone to by whoever is still there. */
export function useFirstWrong(form: RefObject<HTMLElement | null>, problem: Refusal): void {
  const told = useRef(problem);
  useEffect(() => {
    const isNew = told.current !== problem; // else it was said before this was drawn
    told.current = problem;
    const around = form.current;
    if (!problem || !around) return;
    const wrong = [...around.querySelectorAll<HTMLElement>(WRONG)];
    for (const each of wrong)
      for (let fold = each.closest('details'); fold; fold = fold.parentElement?.closest('details') ?? null) fold.open = true;
    const at = document.activeElement;
    if (isNew && (!at || at.contains(around) || around.contains(at))) wrong[0]?.focus();
  }, [form, problem]);
}
