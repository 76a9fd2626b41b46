import { Download, RotateCw, Volume2, VolumeX } from 'lucide-react';
import { type ReactNode, useCallback, useMemo, useRef, useState, useSyncExternalStore } from 'react';
import { Reel } from '../api/reel';
import type { Stretch } from '../api/scenes';
import { painted, pictureOf } from '../api/still';
import { Screen } from './screen';
import { ICON } from './transport';

/** Once in so long a video that stopped is fetched anew: a bucket lends an address for an hour. */
const RENEWED_MS = 10 * 60_000;

interface Shown {
  src: string;
  poster: string;
  label: string;
  name: string;
  duration: number;
  fps: number;
  scenes: readonly Stretch[];
  wide: number;
  /** What is said over it, where it is not what it is going to be. */
  stale?: string | undefined;
  /** Which one it is, said over it, where another one might be meant. */
  shows?: string | undefined;
  /** What else can be done with it. */
  tools?: ReactNode;
  /** Where small frames of it are, or else there. */
  sprites?: readonly string[];
  gone: () => void;
  /** The browser does not play it, though it is there, and something else is shown in its place. */
  refused?: (() => void) | undefined;
  /** What one can do in that case, where nothing else is shown, beside downloading it. */
  otherwise?: string;
  /** What moves it, where somebody else wants to know of that. */
  reel?: Reel;
}

/** A video, moved by frames as the live page is. */
export function Film({ src, poster, label, name, duration, fps, scenes, wide, stale, shows, tools, sprites, gone, refused, otherwise, reel: given }: Shown) {
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
  const renewed = useRef({ of: '', at: 0 });
  const [dead, setDead] = useState<{ of: string; why: Why }>();
  const why = dead?.of === src ? dead.why : undefined;
  const failed = async () => {
    const [was, error] = [reel.shown, video.current?.error];
    const status = await fetch(src, { method: 'HEAD', redirect: 'manual' }).then((answer) => answer.status, () => undefined); // prettier-ignore
    if (video.current?.getAttribute('src') !== src) return; // another one is shown by now
    if (status === 404) return gone();
    const isFresh = renewed.current.of === src && Date.now() - renewed.current.at < RENEWED_MS;
    if (isFresh && status === 200 && error?.code !== MediaError.MEDIA_ERR_NETWORK) return refused ? refused() : setDead({ of: src, why: 'refused' });
    if (isFresh || status !== 200) return setDead({ of: src, why: 'unreached' });
    renewed.current = { of: src, at: Date.now() };
    reel.again(was);
  };
  const again = () => {
    setDead(undefined);
    reel.again();
  };
  return (
    <Screen
      wide={wide}
      scenes={scenes}
      name={name}
      label={stale ?? shows}
      sprites={sprites}
      moved={{ time, duration: length, fps, playing, seek: reel.seek, play: reel.play, pause: reel.pause }}
      still={why ? undefined : (at) => pictureOf(video.current, src, at + 0.5 / fps)}
      waits={() => (reel.hasPainted || !video.current ? undefined : painted(video.current, reel.shown.time + 0.5 / fps))}
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
        onLoadedMetadata={({ currentTarget }) => {
          setReal(currentTarget.duration);
          reel.ready();
        }}
        onPause={reel.stopped}
        onSeeked={reel.seen}
        onEnded={reel.ended}
        onError={() => void failed()}
      />
      <div role="status" className="pointer-events-none absolute inset-x-3 z-1 mx-auto max-w-md">
        {why && <Dead why={why} src={src} otherwise={otherwise} again={again} />}
      </div>
    </Screen>
  );
}

type Why = 'refused' | 'unreached';

/** Why nothing plays, over the picture, and the ways out. */
function Dead({ why, src, otherwise = 'or open this page in another one', again }: { why: Why; src: string; otherwise?: string | undefined; again: () => void }) {
  const look = 'pointer-events-auto inline-flex min-h-9 items-center gap-2 rounded-lg px-2.5 text-accent hover:bg-sunken';
  return (
    <div className="space-y-1 rounded-xl border border-line bg-panel px-4 py-3 text-center text-sm text-balance">
      <p>{why === 'refused' ? `This browser cannot play this video. Download it, ${otherwise}.` : 'The video cannot be fetched just now.'}</p>
      {why === 'refused' ? (
        <a href={src.includes('?') ? `${src}&download=true` : src} download className={look}>
          <Download aria-hidden className="size-4" /> Download it
        </a>
      ) : (
        <button type="button" className={look} onClick={again}>
          <RotateCw aria-hidden className="size-4" /> Try again
        </button>
      )}
    </div>
  );
}
