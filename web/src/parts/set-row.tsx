import type { Refusal } from '../../node/src/fields';
import { Button } from './button';
import { Said } from './said';

/** The end of a form of this session: what was refused of it, what sends it, and what came of that. */
export function SetRow({ name, isIdle, said, problem, except }: { name: string; isIdle: boolean; said: string; problem: Refusal; except: readonly string[] }) {
  return (
    <>
      <Said problem={problem} except={except} />
      <div className="flex flex-wrap items-center gap-3">
        <Button type="submit" aria-disabled={isIdle} className="py-2 aria-disabled:opacity-60">
          {name}
        </Button>
        <p role="status" className="text-muted">
          {said}
        </p>
      </div>
    </>
  );
}
