import { type Refusal, restOf } from '../../node/src/fields';
import { useStill } from '../api/reach';

interface Props {
  problem: Refusal;
  id?: string;
  /** The names of fields that say themselves what is wrong with them. */
  except?: readonly string[];
}

const NONE: readonly string[] = [];

/** What the server said about what was typed, beside it; that it does not answer is said until it does. */
export function Said({ problem, id, except = NONE }: Props) {
  const said = restOf(useStill(problem), except);
  if (said === undefined) return null;
  return (
    <p role="alert" id={id} className="rounded-xl bg-bad-ground px-3.5 py-2.5 text-sm text-bad">
      {said}
    </p>
  );
}
