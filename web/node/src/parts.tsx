/** What all screens of a node are made of. */
import type { ButtonHTMLAttributes, ReactNode } from 'react';
import { type Answered, type Answering, useAnswered as useAnsweredIn } from './answered';
import { type Refusal, restOf } from './fields';
import type { Scene } from './session';

const NONE: readonly string[] = [];

export function Button({ kind = 'plain', className = '', ...rest }: ButtonHTMLAttributes<HTMLButtonElement> & { kind?: 'main' | 'plain' | 'quiet' }) {
  return <button type="button" className={`koda-button koda-${kind} ${className}`} {...rest} />;
}

export function Said({ problem, except = NONE }: { problem: Refusal; except?: readonly string[] }) {
  const said = restOf(problem, except);
  return said === undefined ? null : (
    <p role="alert" className="koda-said">
      {said}
    </p>
  );
}

/** What was said of one field, in a node's looks. */
export function useAnswered(what: Omit<Answering, 'className'>): Answered {
  return useAnsweredIn({ ...what, className: 'koda-wrong' });
}

const ICONS = {
  fold: 'm6 15 6-6 6 6',
  unfold: 'm6 9 6 6 6-6',
  open: 'M14 5h5v5M19 5l-8 8M17 14v4a1 1 0 0 1-1 1H6a1 1 0 0 1-1-1V8a1 1 0 0 1 1-1h4',
  stop: 'M7 7h10v10H7z',
  done: 'm5 12.5 4.5 4.5L19 7.5',
  down: 'M12 4v11m-5-4 5 5 5-5M5 20h14',
};

export function Icon({ name }: { name: keyof typeof ICONS }) {
  return (
    <svg aria-hidden className="koda-icon" viewBox="0 0 24 24" fill="none" stroke="currentColor" strokeWidth="2" strokeLinecap="round" strokeLinejoin="round">
      <path d={ICONS[name]} />
    </svg>
  );
}

/** Scenes side by side, each as wide as it is long. */
export function Strip({ scenes }: { scenes: readonly Scene[] }) {
  return (
    <ol className="koda-strip" aria-label="Scenes">
      {scenes.map(({ number, title, duration }) => (
        <li key={number} style={{ flexGrow: duration }} title={`${title}, ${seconds(duration)}`}>
          <span>{title}</span>
          <small>{seconds(duration)}</small>
        </li>
      ))}
    </ol>
  );
}

export function Fact({ children }: { children: ReactNode }) {
  return <p className="koda-fact">{children}</p>;
}

export function seconds(value: number): string {
  return `${Number(value.toFixed(2))} s`;
}

export function bytes(count: number): string {
  return count < 1e6 ? `${Math.max(1, Math.round(count / 1e3))} kB` : `${(count / 1e6).toFixed(1)} MB`;
}
