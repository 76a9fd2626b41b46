/** Do something as soon as it is asked for, but once in a while at most: the last time is never left out. */
export function paced(work: () => void, everyMs: number): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let done = -Infinity;
  return () => {
    timer ??= setTimeout(
      () => {
        timer = undefined;
        done = performance.now();
        work();
      },
      Math.max(0, done + everyMs - performance.now()),
    );
  };
}
