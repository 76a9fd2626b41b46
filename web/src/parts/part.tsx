import { type ReactNode, useId } from 'react';

/** A part of the dialog, under its name. */
export function Part({ name, children }: { name: string; children: ReactNode }) {
  const id = useId();
  return (
    <section aria-labelledby={id} className="space-y-3">
      <h3 id={id} tabIndex={-1} className="w-fit text-sm font-medium">
        {name}
      </h3>
      {children}
    </section>
  );
}
