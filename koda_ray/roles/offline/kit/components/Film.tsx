// An uploaded film as a part of the picture: it shows its own time, and begins again where it is the shorter one.
import { useLayoutEffect, useRef, type CSSProperties } from 'react';
import { useCurrentTime } from '../hooks/useCurrentTime';
import { clock } from '../koda/clock';
import { record } from '../koda/errors';
import { isPlaying } from '../koda/live';

interface FilmProps {
  readonly src: string;
  readonly style?: CSSProperties;
}

/** How far a film that plays by itself may be from the animation's time, in seconds, before it is sought. */
const APART_S = 0.2;
/** How long no frame may come before what plays is taken to stand. */
const STANDS_MS = 200;

/** Whether an address is a film's. */
export function isFilm(src: string): boolean {
  return /\.(mp4|webm)$/.test(src);
}

/** Where a film stands at the animation's time. */
function placeOf(film: HTMLVideoElement): number {
  return Number.isFinite(film.duration) && film.duration > 0 ? clock.now() % film.duration : clock.now();
}

function stand(film: HTMLVideoElement): void {
  film.pause();
  film.currentTime = placeOf(film);
}

export function Film({ src, style }: FilmProps) {
  const time = useCurrentTime();
  const film = useRef<HTMLVideoElement>(null);
  useLayoutEffect(() => {
    const element = film.current;
    if (!element) return;
    if (!isPlaying() || Math.abs(element.currentTime - placeOf(element)) > APART_S) {
      stand(element);
      return;
    }
    element.play().catch(() => undefined); // where it may not, it is sought
    const stops = setTimeout(() => stand(element), STANDS_MS);
    return () => clearTimeout(stops);
  }, [time]);
  return (
    <video
      ref={film}
      src={src}
      muted
      playsInline
      preload="auto"
      style={style}
      onLoadedMetadata={({ currentTarget }) => stand(currentTarget)}
      onError={() => record(`the film ${src} could not be shown: send it as MP4 with H.264, or as WebM`, 'asset')}
    />
  );
}
