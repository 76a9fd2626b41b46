import { Volume2, VolumeX } from 'lucide-react';
import { type ReactNode, useCallback, useMemo, useRef, useState, useSyncExternalStore } from 'react';
import type { Schemas } from '../api/client';
import { Reel } from '../api/reel';
import { pictureOf } from '../api/still';
import { Screen } from './screen';
import { ICON } from './transport';

interface Shown {
  src: string;
  poster: string;
  label: string;
  name: string;
  duration: number;
  fps: number;
  scenes: Schemas['Plan']['scenes'];
  wide: number;
  /** What is said over it, where it is not what it is going to be. */
  stale?: string | undefined;
  /** What else can be done with it. */
  tools?: ReactNode;
  /** Where small frames of it are, or else there. */
  sprites?: readonly string[];
  gone: () => void;
  /** The browser does not play it, though it is there. */
  refused?: () => void;
  /** What moves it, where somebody else wants to know of that. */
  reel?: Reel;
}

/** A video, moved by frames as the live page is. */
export function Film({ src, poster, label, name, duration, fps, scenes, wide, stale, tools, sprites, gone, refused, reel: given }: Shown) {
  const video = useRef<HTMLVideoElement>(null);
  const reel = useMemo(() => given ?? new Reel(fps), [given, fps]);
  const { time, playing } = useSyncExternalStore(reel.watch, () => reel.shown);
  const [real, setReal] = useState(0);
  const [muted, setMuted] = useState(false);
  const attach = useCallback(
    (found: HTMLVideoElement | null) => {
      video.current = found;
      reel.attach(found);
    },
    [reel],
  );
  const length = duration || real;
  const failed = () =>
    void fetch(src, { method: 'HEAD', redirect: 'manual' }).then(({ status }) => (status === 404 ? gone() : refused?.()), () => undefined); // prettier-ignore
  return (
    <Screen
      wide={wide}
      scenes={scenes}
      name={name}
      sprites={sprites}
      moved={{ time, duration: length, fps, playing, seek: reel.seek, play: reel.play, pause: reel.pause }}
      still={() => pictureOf(video.current, src)}
      tools={
        <>
          {tools}
          <button type="button" className={ICON} aria-label="Sound" aria-pressed={!muted} title="Sound" onClick={() => setMuted(!muted)}>
            {muted ? <VolumeX aria-hidden className="size-4" /> : <Volume2 aria-hidden className="size-4" />}
          </button>
        </>
      }
    >
      <video
        ref={attach}
        className={`size-full object-contain ${stale ? 'opacity-50' : ''}`}
        src={src}
        poster={poster}
        playsInline
        muted={muted}
        preload="metadata"
        aria-label={label}
        onLoadedMetadata={({ currentTarget }) => setReal(currentTarget.duration)}
        onPause={reel.stopped}
        onSeeked={reel.seen}
        onEnded={reel.ended}
        onError={failed}
      />
      {stale && <p className="absolute top-2 left-2 max-w-[calc(100%-1rem)] rounded-lg bg-panel px-2.5 py-1 text-sm sm:top-3 sm:left-3">{stale}</p>}
    </Screen>
  );
}
