import { clock } from '../../node/src/clock';
import type { Schemas } from '../api/client';
import { ago } from '../api/dates';
import { timecode } from '../api/timecode';

/** What somebody said of a video, and of which moment of it; `go` shows that moment. */
export function Remark({ remark, go }: { remark: Schemas['ShareCommentView']; go?: (at: number) => void }) {
  const { name, text, at, createdAt } = remark;
  const moment = at === null ? undefined : timecode(at);
  return (
    <li className="text-sm">
      <p className="text-muted">
        {name || 'Somebody'} · {ago(createdAt, clock.now())}
        {at !== null &&
          (go ? (
            <>
              {' · '}
              <button type="button" className="text-accent tabular-nums underline underline-offset-4" onClick={() => go(at)} aria-label={`Go to ${moment}`}>
                {moment}
              </button>
            </>
          ) : (
            <span className="tabular-nums"> · at {moment}</span>
          ))}
      </p>
      <p className="mt-0.5 wrap-anywhere whitespace-pre-wrap">{text}</p>
    </li>
  );
}
