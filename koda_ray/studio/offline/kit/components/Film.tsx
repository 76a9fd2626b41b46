// An uploaded film as a part of the picture: it shows its own time, and begins again where it is the shorter one.
import { useLayoutEffect, useRef, type CSSProperties } from 'react';
import { useCurrentTime } from '../hooks/useCurrentTime';
import { mode } from '../koda/contract';

interface FilmProps {
  readonly src: string;
  readonly style?: CSSProperties;
}

/** How far a film that plays by itself may be from the animation's time, in seconds, before it is sought. */
const APART = 0.2;

/** Whether an address is a film's. */
export function isFilm(src: string): boolean {
  return /\.(mp4|webm)$/.test(src);
}

export function Film({ src, style }: FilmProps) {
  const time = useCurrentTime();
  const before = useRef(time);
  const film = useRef<HTMLVideoElement>(null);
  useLayoutEffect(() => {
    const element = film.current;
    if (!element) return;
    const at = element.duration > 0 ? time % element.duration : time;
    const plays = mode === 'live' && time > before.current && time - before.current < APART;
    before.current = time;
    if (plays && Math.abs(element.currentTime - at) < APART) {
      element.play().catch(() => undefined); // where it may not, it is sought
      return;
    }
    element.pause();
    element.currentTime = at;
  }, [time]);
  return <video ref={film} src={src} muted playsInline preload="auto" style={style} />;
}
