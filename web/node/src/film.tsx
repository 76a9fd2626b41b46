/** What there is to see of a session: its video, else its scenes side by side. */
import { type SyntheticEvent, useEffect, useRef, useState } from 'react';
import { useAround } from './context';
import { Strip } from './parts';
import { type NodeSession, shownOf } from './session';

export function Film({ session }: { session: NodeSession }) {
  const { state } = session;
  const made = shownOf(state);
  if (!made?.jobId) return state.plan ? <Strip scenes={state.plan.scenes} /> : null;
  return <Player key={made.jobId} session={session} jobId={made.jobId} />;
}

function Player({ session, jobId }: { session: NodeSession; jobId: string }) {
  const { koda } = useAround();
  const { id, state } = session;
  const isOld = state.phase === 'executing';
  const player = useRef<HTMLVideoElement>(null);
  const address = useRef<string>(undefined); // another one would begin it anew
  const left = useRef<{ at: number; plays: boolean }>(undefined);
  const [, drawAgain] = useState(0);
  address.current ??= koda.media(id, 'video', jobId);
  const src = address.current;
  const lost = ({ currentTarget }: SyntheticEvent<HTMLVideoElement>) => {
    if (!koda.renew(id, jobId, src)) return;
    left.current ??= { at: currentTarget.currentTime, plays: !currentTarget.paused };
    address.current = undefined;
    drawAgain((times) => times + 1);
  };
  useEffect(() => {
    if (!player.current || !src || !left.current) return;
    const { at, plays } = left.current;
    left.current = undefined;
    player.current.currentTime = at;
    if (plays) player.current.play().catch(() => {}); // a browser may want a click for that
  }, [src]);
  return (
    <video
      ref={player}
      className="koda-film"
      src={src}
      poster={koda.media(id, 'thumbnail', jobId)}
      style={state.plan?.width && state.plan.height ? { aspectRatio: `${state.plan.width} / ${state.plan.height}` } : undefined}
      data-old={isOld || undefined}
      aria-label={isOld ? 'As it was before; a new one is being made' : state.output?.jobId === jobId ? 'The finished video' : 'The preview'}
      controls
      loop
      playsInline
      preload="none"
      onError={lost}
    />
  );
}
