// What the page waits for, by name: suspended components, files that load, text that is being laid out.
//
// A frame counts as drawn only when nothing is pending. Whatever starts asynchronous work that the picture depends on
// holds an entry and releases it when the work is done.

const held = new Map<symbol, string>();
let waiters: (() => void)[] = [];

/** Hold the frame back until the returned function is called. `name` is what a timeout will say. */
function hold(name: string): () => void {
  const key = Symbol(name);
  held.set(key, name);
  return () => {
    held.delete(key);
    if (held.size > 0) return;
    const resolved = waiters;
    waiters = [];
    for (const resolve of resolved) resolve();
  };
}

/** Hold the frame back until `work` has settled, and give its outcome. */
async function holdFor<T>(name: string, work: Promise<T>): Promise<T> {
  const release = hold(name);
  try {
    return await work;
  } finally {
    release();
  }
}

function idle(): Promise<void> {
  return held.size === 0 ? Promise.resolve() : new Promise((resolve) => waiters.push(resolve));
}

export const pending = {
  hold,
  holdFor,
  idle,
  isIdle: (): boolean => held.size === 0,
  names: (): string[] => [...held.values()],
};
