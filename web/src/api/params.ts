/** What stands in the address by its name, and how something else comes there; undefined: nothing does. */
import { useLocation, useSearchParams } from 'wouter';

export type Params = Record<string, string | undefined>;

/**
 * What names a screen's parts in its address; putting something there makes no step back. A screen that was left stays until the
 * next one is loaded: it puts nothing there any more, or it would be gone back to.
 */
export function useParams(): [URLSearchParams, (change: Params) => void] {
  const [params, setParams] = useSearchParams();
  const [location] = useLocation();
  const put = (change: Params) => {
    if (window.location.pathname === location) setParams((now) => withParams(now, change), { replace: true });
  };
  return [params, put];
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
