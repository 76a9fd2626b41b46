import type { ChangeEvent, InputHTMLAttributes, ReactNode } from 'react';
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
  className?: string;
}

/** A line to be typed, under its name, and beneath it what the server answered to it. */
export function Field({ label, value, set, isNumber = false, className = 'field py-1.5', placeholder, autoFocus, autoComplete, ...asked }: Props) {
  const { marks, words } = useAnswered({ ...asked, value });
  return (
    <div>
      <label className="block space-y-1">
        <span className="block">{label}</span>
        <input
          className={className}
          inputMode={isNumber ? 'decimal' : undefined}
          {...{ placeholder, autoFocus, autoComplete }}
          value={value}
          onChange={({ target }: ChangeEvent<HTMLInputElement>) => set(target.value)}
          {...marks}
        />
      </label>
      {words}
    </div>
  );
}

interface InRowProps extends Omit<InputHTMLAttributes<HTMLInputElement>, 'name' | 'value'>, Pick<Answering, 'problem' | 'name' | 'hint'> {
  value: string;
}

/** A line to be typed in a row with others, which wraps: below the row stands what the server answered to it. */
export function InRow({ problem, name, hint, value, ...rest }: InRowProps) {
  const { marks, words } = useAnswered({ problem, name, hint, value, className: 'order-last w-full' });
  return (
    <>
      <input {...rest} value={value} {...marks} />
      {words}
    </>
  );
}
