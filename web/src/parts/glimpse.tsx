import { Film, Pause, Play } from 'lucide-react';
import { type FocusEvent, type PointerEvent, useCallback, useEffect, useRef, useState } from 'react';
import { wantsRest } from '../api/motion';

/** How long one has to stay at a video until it plays, so that passing over many plays none. */
const REST_MS = 350;
/** What ends the one that plays. */
let ending: (() => void) | undefined;

/**
 * A video that plays while somebody stays at it, by mouse or by keyboard, or until it is stopped where it was begun by hand;
 * at most one of all does. Where motion is not wanted it begins by hand alone.
 */
export function useGlimpse() {
  const [isPlaying, setPlaying] = useState(false);
  const rest = useRef<ReturnType<typeof setTimeout>>(undefined);
  const stop = useCallback(() => {
    clearTimeout(rest.current);
    setPlaying(false);
    if (ending === stop) ending = undefined;
  }, []);
  const play = useCallback(() => {
    if (ending !== stop) ending?.();
    ending = stop;
    setPlaying(true);
  }, [stop]);
  const stay = useCallback(() => {
    clearTimeout(rest.current);
    if (!wantsRest()) rest.current = setTimeout(play, REST_MS);
  }, [play]);
  useEffect(() => stop, [stop]);
  return {
    isPlaying,
    stop,
    toggle: isPlaying ? stop : play,
    around: {
      onPointerEnter: ({ pointerType }: PointerEvent) => pointerType === 'mouse' && stay(),
      onPointerLeave: ({ pointerType }: PointerEvent) => pointerType === 'mouse' && stop(),
      onFocus: ({ target }: FocusEvent) => target.matches('a:focus-visible') && stay(),
      onBlur: ({ currentTarget, relatedTarget }: FocusEvent) => !currentTarget.contains(relatedTarget) && stop(),
    },
  };
}

interface Shown {
  poster: string | null | undefined;
  /** While it plays. */
  video: string | undefined;
  duration: number | null | undefined;
  failed: () => void;
}

/** A picture of a video, and the video itself over it for as long as it plays: none is fetched that nobody asked for. */
export function Glimpse({ poster, video, duration, failed }: Shown) {
  return (
    <div className={`group/glimpse relative grid place-items-center bg-sunken ${poster ? 'aspect-video' : 'aspect-[4/1] sm:aspect-video'}`}>
      {poster ? (
        <img src={poster} alt="" loading="lazy" className="size-full object-contain group-has-data-plays/glimpse:invisible" />
      ) : (
        <Film aria-hidden className="size-7 text-muted opacity-50" />
      )}
      {video && (
        <video
          src={video}
          aria-hidden
          tabIndex={-1}
          autoPlay
          muted
          loop
          playsInline
          disablePictureInPicture
          className="absolute inset-0 size-full object-contain"
          onPlaying={({ currentTarget }) => currentTarget.setAttribute('data-plays', '')} // it may be transparent: the picture is not seen through it
          onError={failed}
        />
      )}
      {duration && (
        <span aria-hidden className="absolute right-2 bottom-2 rounded-md bg-panel/90 px-1.5 py-0.5 text-xs text-text tabular-nums">
          {seconds(duration)}
        </span>
      )}
    </div>
  );
}

export function seconds(value: number): string {
  return `${Number(value.toFixed(1))} s`;
}

/** The way to stop it, wherever it plays; and to begin it, where it does not by itself. */
export function PlayButton({ of, isPlaying, toggle }: { of: string; isPlaying: boolean; toggle: () => void }) {
  return (
    <button
      type="button"
      aria-label={`${isPlaying ? 'Pause' : 'Play'} ${of}`}
      title={isPlaying ? 'Pause' : 'Play'}
      onClick={toggle}
      className={`absolute top-2 left-2 grid size-9 place-items-center rounded-full bg-panel/90 text-text shadow-sm transition-opacity hover:bg-panel motion-reduce:transition-none ${isPlaying ? '' : 'opacity-0 group-hover/card:opacity-100 group-focus-within/card:opacity-100 pointer-coarse:opacity-100'}`}
    >
      {isPlaying ? <Pause aria-hidden className="size-4 fill-current" /> : <Play aria-hidden className="size-4 translate-x-px fill-current" />}
    </button>
  );
}
