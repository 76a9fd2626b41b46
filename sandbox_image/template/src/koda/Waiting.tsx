// A Suspense fallback that holds the frame back: nothing is captured while a component under it waits for a file.
import { useLayoutEffect } from 'react';
import { pending } from './pending';

export function Waiting({ name }: { name: string }): null {
  useLayoutEffect(() => pending.hold(name), [name]);
  return null;
}
