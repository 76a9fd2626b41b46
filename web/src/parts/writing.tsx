import { useEffect, useRef, useState } from 'react';
import type { SessionView } from '../api/client';
import { follow } from '../api/following';
import { pieceOf, Writing } from '../api/writing';

/** So many events before now may have told of the file that is written now. */
const BEFORE = 500;
/** So far from its end somebody has not left the end. */
const NEARLY_PX = 40;

/** The code as it is written, for who wants to see that: it is followed for as long as this is unfolded. */
export function AsWritten({ session }: { session: SessionView }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <details className="text-sm" onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary className="min-h-6 cursor-pointer text-muted">The code as it is written</summary>
      {isOpen && <Code id={session.id} seq={session.seq} />}
    </details>
  );
}

/** It goes past React, which would draw all of it anew for each piece; and is to be read, but not read out. */
function Code({ id, seq }: { id: string; seq: number }) {
  const place = useRef<HTMLPreElement>(null);
  const isAtEnd = useRef(true);
  const [path, setPath] = useState('');
  const [from] = useState(() => Math.max(0, seq - BEFORE));
  useEffect(() => {
    const ended = new AbortController();
    const writing = new Writing();
    let due = 0;
    const draw = () => {
      due = 0;
      setPath(writing.path);
      const { current: pre } = place;
      if (!pre) return;
      pre.textContent = writing.text;
      if (isAtEnd.current) pre.scrollTop = pre.scrollHeight;
    };
    const heard = ({ data }: { data: string }) => {
      const piece = pieceOf(data);
      if (!piece) return;
      writing.take(piece);
      due ||= requestAnimationFrame(draw);
    };
    void follow(`/v1/events?sessions=${id}:${from}&types=code_chunk`, { heard }, ended.signal);
    return () => {
      ended.abort();
      cancelAnimationFrame(due);
    };
  }, [id, from]);
  return (
    <div className="mt-2 space-y-1">
      <p className="text-muted wrap-anywhere">{path || 'Nothing is written just now.'}</p>
      <pre
        ref={place}
        aria-label={path || 'Code'}
        tabIndex={0}
        hidden={!path}
        className="max-h-72 overflow-auto rounded-lg bg-sunken p-3 text-xs"
        onScroll={({ currentTarget: { scrollHeight, scrollTop, clientHeight } }) => {
          isAtEnd.current = scrollHeight - scrollTop - clientHeight < NEARLY_PX;
        }}
      />
    </div>
  );
}
