import type { ChangeEvent, InputHTMLAttributes, ReactNode, TextareaHTMLAttributes } from 'react';
import { type Answered, type Answering, useAnswered as useAnsweredIn } from '../../node/src/answered';

export { useFirstWrong } from '../../node/src/answered';

/** What was said of one field, in the studio's looks. */
export function useAnswered({ className = 'mt-1', ...what }: Answering): Answered {
  return useAnsweredIn({ ...what, className: `${className} text-sm wrap-anywhere text-bad` });
}

interface Props extends Omit<Answering, 'className' | 'value'> {
  label: ReactNode;
  value: string;
  set: (value: string) => void;
  placeholder?: string;
  /** Whether a number is meant: what is none is sent as it is, for the server to say so. */
  isNumber?: boolean;
  autoFocus?: boolean;
  autoComplete?: string;
  /** The id of a list of what may be meant. */
  list?: string;
  className?: string;
}

/** A line to be typed, under its name, and beneath it what the server answered to it. */
export function Field({ label, value, set, isNumber = false, className = 'field py-1.5', placeholder, autoFocus, autoComplete, list, ...asked }: Props) {
  const { marks, words } = useAnswered({ ...asked, value });
  return (
    <div>
      <label className="block space-y-1">
        <span className="block">{label}</span>
        <input
          className={className}
          inputMode={isNumber ? 'decimal' : undefined}
          {...{ placeholder, autoFocus, autoComplete, list }}
          value={value}
          onChange={({ target }: ChangeEvent<HTMLInputElement>) => set(target.value)}
          {...marks}
        />
      </label>
      {words}
    </div>
  );
}

interface Asked extends Pick<Answering, 'problem' | 'name' | 'hint'> {
  value: string;
}

type InRowProps = Omit<InputHTMLAttributes<HTMLInputElement>, keyof Asked> & Asked;
type AreaInRowProps = Omit<TextareaHTMLAttributes<HTMLTextAreaElement>, keyof Asked> & Asked;

function useAnsweredInRow(asked: Asked): Answered {
  return useAnswered({ ...asked, className: 'order-last w-full' });
}

/** A line to be typed in a row with others, which wraps: below the row stands what the server answered to it. */
export function InRow({ problem, name, hint, value, ...rest }: InRowProps) {
  const { marks, words } = useAnsweredInRow({ problem, name, hint, value });
  return (
    <>
      <input {...rest} value={value} {...marks} />
      {words}
    </>
  );
}

/** The same with several lines to be typed. */
export function AreaInRow({ problem, name, hint, value, ...rest }: AreaInRowProps) {
  const { marks, words } = useAnsweredInRow({ problem, name, hint, value });
  return (
    <>
      <textarea {...rest} value={value} {...marks} />
      {words}
    </>
  );
}
