import type { ComponentProps } from 'react';

const LOOKS = {
  main: 'bg-accent text-on-accent hover:opacity-90 px-4 py-2.5 font-medium',
  plain: 'border border-line-strong bg-panel hover:bg-sunken px-4 py-2.5',
  quiet: 'text-muted hover:text-text hover:bg-sunken px-3 py-2 text-sm',
};

export function Button({
  kind = 'plain',
  className = '',
  ...rest
}: ComponentProps<'button'> & { kind?: keyof typeof LOOKS }) {
  return (
    <button
      type="button"
      className={`inline-flex min-h-10 items-center justify-center gap-2 rounded-xl transition-colors motion-reduce:transition-none disabled:opacity-60 ${LOOKS[kind]} ${className}`}
      {...rest}
    />
  );
}
