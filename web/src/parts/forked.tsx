import type { ReactNode } from 'react';

interface Props {
  /** The session that another was made of. */
  from: string | null | undefined;
  /** What it is called, while it is there. */
  title: string | null | undefined;
  className: string;
  children?: (title: string) => ReactNode;
}

/** Of which session another one was made, which looks the same at first. */
export function Forked({ from, title, className, children = (words) => `“${words}”` }: Props) {
  if (!from) return null;
  return <span className={className}>Forked from {title ? children(title.split('\n')[0] ?? '') : 'one that is not there any more'}</span>;
}
