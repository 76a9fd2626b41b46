/** What stands in the address by its name, and how something else comes there; undefined: nothing does. */
import { useSearchParams } from 'wouter';

export type Params = Record<string, string | undefined>;

/** What names a screen's parts in its address; putting something there makes no step back. */
export function useParams(): [URLSearchParams, (change: Params) => void] {
  const [params, setParams] = useSearchParams();
  return [params, (change) => setParams((now) => withParams(now, change), { replace: true })];
}

/** An address's parameters with some of them changed. */
export function withParams(now: URLSearchParams, change: Params): URLSearchParams {
  const next = new URLSearchParams(now);
  for (const [name, value] of Object.entries(change)) {
    if (value === undefined) next.delete(name);
    else next.set(name, value);
  }
  return next;
}
