import { Camera, Volume2, VolumeX } from 'lucide-react';
import { type CSSProperties, type ReactNode, type RefObject, useEffect, useMemo, useRef, useState, useSyncExternalStore } from 'react';
import type { Schemas } from '../api/client';
import { playerOf, usePageLink } from '../api/hooks';
import { LivePage } from '../api/live';
import type { Moved } from '../api/moved';
import { PagePair } from '../api/pages';
import { Pair } from '../api/pair';
import { isAlike, until } from '../api/scenes';
import { beside, pictureOf, save } from '../api/still';
import { frameAt } from '../api/timecode';
import { fileName } from '../api/words';
import { Button } from './button';
import { Curve } from './curve';
import { canFill, FILLED, FullScreen, fullScreen } from './full-screen';
import { useKey } from './keys';
import { Said } from './said';
import { ICON, Transport } from './transport';

export type Side = Schemas['ComparedSide'];
export type Pairing = Schemas['ComparedView'];
export type Mode = 'side' | 'wipe' | 'flip' | 'difference';

const GAINS = [1, 4, 16];
const KEPT_MS = 400;

export interface Compared {
  pair: Pairing;
  mode: Mode;
  /** Where it begins, and who is told where it stands, in seconds. */
  time: number;
  keep: (t: string) => void;
  /** By how much they differ in each frame, or why nobody knows. */
  curve: readonly number[] | undefined;
  unsaid: string | undefined;
}

/** Both videos with one clock. */
export function Videos(compared: Compared) {
  const { pair, mode, time: begun } = compared;
  const { fps, frames } = pair;
  const clock = useMemo(() => new Pair(fps), [fps]);
  const { time, playing } = useSyncExternalStore(clock.first.watch, () => clock.first.shown);
  const [gone, setGone] = useState<'A' | 'B'>();
  const [heard, hear] = useState<'A' | 'B'>();
  const [isUntaken, setUntaken] = useState(false);
  const toggler = useRef(() => {});
  const stage = useRef<HTMLDivElement>(null);
  useEffect(() => {
    clock.seek(Math.round(begun * fps) / fps);
    const end = clock.first.watch(clock.shown);
    return () => {
      end();
      clock.close();
    };
  }, [clock]);
  const take = async () => {
    clock.pause();
    setUntaken(false);
    const [a, b] = [...(stage.current?.querySelectorAll('video') ?? [])];
    try {
      const middle = (frameAt(time, fps) + 0.5) / fps;
      if (a && b) save(await beside(await pictureOf(a, pair.a.videoUrl, middle), await pictureOf(b, pair.b.videoUrl, middle)), `${fileName(`${nameOf(pair.a)} ${nameOf(pair.b)}`)}-f${frameAt(time, fps)}.png`);
    } catch {
      setUntaken(true); // one of them is not there
    }
  };
  useKey('s', () => void take());
  const tools = (
    <>
      {(['A', 'B'] as const).map((name) => (
        <button
          key={name}
          type="button"
          className="inline-flex h-9 shrink-0 items-center gap-0.5 rounded-lg px-2 text-xs text-muted hover:bg-sunken hover:text-text aria-pressed:bg-accent-ground aria-pressed:text-accent"
          aria-label={`Sound of ${name}`}
          aria-pressed={heard === name}
          title={`Sound of ${name}`}
          onClick={() => hear(heard === name ? undefined : name)}
        >
          {heard === name ? <Volume2 aria-hidden className="size-4" /> : <VolumeX aria-hidden className="size-4" />}
          <span aria-hidden>{name}</span>
        </button>
      ))}
      <button type="button" className={ICON} aria-label="Save both frames as one picture" title="Save both frames as one PNG (S)" onClick={() => void take()}>
        <Camera aria-hidden className="size-4" />
      </button>
    </>
  );
  const video = (name: 'A' | 'B', side: Side) => (
    <video
      ref={name === 'A' ? clock.attachFirst : clock.attachSecond}
      className="size-full object-contain"
      src={side.videoUrl}
      muted={heard !== name}
      playsInline
      preload="auto"
      aria-label={`${name}: ${nameOf(side)}`}
      onSeeked={name === 'A' ? clock.first.seen : clock.settled}
      onPause={name === 'A' ? clock.first.stopped : undefined}
      onEnded={name === 'A' ? clock.first.ended : undefined}
      onError={() => setGone(name)}
    />
  );
  return (
    <div ref={stage} className={`space-y-3 ${FILLED}`}>
      <Faces mode={mode} wide={wideOf(pair)} a={video('A', pair.a)} b={video('B', pair.b)} toggler={toggler} />
      {gone && (
        <p role="alert" className="rounded-xl bg-bad-ground px-3.5 py-2.5 text-sm text-bad">
          The video of {gone} cannot be shown: it is not there any more, or your browser cannot play it.
        </p>
      )}
      {isUntaken && (
        <p role="alert" className="rounded-xl bg-bad-ground px-3.5 py-2.5 text-sm text-bad">
          There is no picture of these frames: a video is not there yet, or not any more.
        </p>
      )}
      <Under {...compared} toggler={toggler} stage={stage} tools={tools} moved={{ time, duration: frames / fps, fps, playing, seek: clock.seek, play: clock.play, pause: clock.pause }} />
    </div>
  );
}

/** Both pages as they were built, with one clock. */
export function Pages({ leave, ...compared }: Compared & { leave: () => void }) {
  const [one, other] = [usePageLink(playerOf(compared.pair.a)), usePageLink(playerOf(compared.pair.b))];
  const problem = one.data && other.data ? null : (one.error ?? other.error);
  if (problem)
    return (
      <div className="space-y-3">
        <Said problem={problem} />
        <Button kind="quiet" onClick={leave}>
          Leave it
        </Button>
      </div>
    );
  if (!one.data || !other.data)
    return (
      <p role="status" className="py-16 text-center text-muted">
        Fetching both pages…
      </p>
    );
  return <Framed key={`${one.data.url} ${other.data.url}`} {...compared} urls={[one.data.url, other.data.url]} />;
}

function Framed({ urls: [a, b], ...compared }: Compared & { urls: readonly [string, string] }) {
  const { pair, mode, time: begun } = compared;
  const { fps, frames } = pair;
  const frameA = useRef<HTMLIFrameElement>(null);
  const frameB = useRef<HTMLIFrameElement>(null);
  const both = useMemo(() => {
    const [first, second] = ([[a, frameA], [b, frameB]] as const).map(([url, frame]) => new LivePage(() => frame.current?.contentWindow, new URL(url).origin));
    return new PagePair(first!, second!, fps);
  }, [a, b, fps]);
  const one = useSyncExternalStore(both.first.watch, () => both.first.shown);
  const other = useSyncExternalStore(both.second.watch, () => both.second.shown);
  const [heard, hear] = useState(false);
  const toggler = useRef(() => {});
  const stage = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const end = both.open();
    window.addEventListener('message', both.first.hear);
    window.addEventListener('message', both.second.hear);
    hear(true);
    return () => {
      end();
      window.removeEventListener('message', both.first.hear);
      window.removeEventListener('message', both.second.hear);
    };
  }, [both]);
  const ready = one.timeline && other.timeline;
  useEffect(() => {
    if (ready) both.seek(Math.round(begun * fps) / fps);
  }, [both, ready !== undefined]);
  const page = (name: 'A' | 'B', url: string, frame: RefObject<HTMLIFrameElement | null>) => (
    <iframe
      ref={frame}
      title={`${name}: the page`}
      src={heard ? url : undefined}
      tabIndex={-1}
      className="absolute inset-0 size-full scheme-light border-0"
      referrerPolicy="no-referrer"
    />
  );
  const problem = one.problem || other.problem;
  return (
    <div ref={stage} className={`space-y-3 ${FILLED}`}>
      <Faces mode={mode} wide={wideOf(pair)} a={page('A', a, frameA)} b={page('B', b, frameB)} toggler={toggler} />
      {problem && (
        <p role="alert" className="rounded-xl bg-bad-ground px-3.5 py-2.5 text-sm wrap-anywhere text-bad">
          A page says: {problem}
        </p>
      )}
      {ready ? (
        <Under {...compared} toggler={toggler} stage={stage} moved={{ time: one.time, duration: frames / fps, fps, playing: one.playing, seek: both.seek, play: both.play, pause: both.pause }} />
      ) : (
        <p role="status" className="min-h-9 py-1.5 text-sm text-muted">
          The pages are loading…
        </p>
      )}
    </div>
  );
}

/** Two pictures beside each other, or one over the other. They stay what they are when that changes. */
function Faces({ mode, wide, a, b, toggler }: { mode: Mode; wide: number; a: ReactNode; b: ReactNode; toggler: RefObject<() => void> }) {
  const [wiped, wipe] = useState(50);
  const [flipped, flip] = useState(false);
  const [gain, setGain] = useState(4);
  const turn = () => flip(!flipped);
  useKey('b', mode === 'flip' ? turn : undefined);
  const stacked = mode !== 'side';
  const over: CSSProperties =
    mode === 'wipe' ? { clipPath: `inset(0 0 0 ${wiped}%)` } : mode === 'flip' ? { visibility: flipped ? 'visible' : 'hidden' } : mode === 'difference' ? { mixBlendMode: 'difference' } : {};
  const shape = { '--wide': wide } as CSSProperties;
  return (
    <>
      <div className={stacked ? '' : 'grid gap-4 md:grid-cols-2'}>
        <div
          className={stacked ? 'picture isolate bg-black' : 'contents'}
          style={{ ...shape, ...(stacked ? { width: `min(100%, max(18rem, calc((100dvh - 25rem) * ${wide})))` } : {}), ...(mode === 'difference' ? { borderRadius: 0, filter: `brightness(${gain})` } : {}) }}
        >
          {([['A', a], ['B', b]] as const).map(([name, face]) => (
            <div key={name} className={stacked ? 'absolute inset-0' : 'min-w-0'} style={name === 'B' ? over : undefined}>
              <div className={stacked ? 'relative size-full' : 'picture bg-black'} style={shape}>
                {face}
                {!stacked && <div className="absolute inset-0" onClick={() => toggler.current()} />}
                {!stacked && <Label>{name}</Label>}
              </div>
            </div>
          ))}
          {stacked && <div className="absolute inset-0" onClick={() => (mode === 'flip' ? turn() : toggler.current())} />}
          {mode === 'wipe' && <Wipe at={wiped} move={wipe} />}
          {(mode === 'wipe' || (mode === 'flip' && !flipped)) && <Label>A</Label>}
          {(mode === 'wipe' || (mode === 'flip' && flipped)) && <Label right>B</Label>}
        </div>
      </div>
      <p role="status" className="sr-only">
        {mode === 'flip' && `${flipped ? 'B' : 'A'} is shown`}
      </p>
      {mode === 'flip' && (
        <Button kind="quiet" onClick={turn} title="B">
          Show {flipped ? 'A' : 'B'}
        </Button>
      )}
      {mode === 'difference' && (
        <label className="flex flex-wrap items-center gap-x-2 text-sm text-muted">
          Black is where both show the same. What differs is made brighter
          <select className="min-h-9 w-17 rounded-lg bg-transparent pr-6 pl-2 hover:bg-sunken hover:text-text" value={gain} onChange={({ target }) => setGain(Number(target.value))}>
            {GAINS.map((each) => (
              <option key={each} value={each}>
                {each}×
              </option>
            ))}
          </select>
        </label>
      )}
    </>
  );
}

function Label({ children, right = false }: { children: string; right?: boolean }) {
  return (
    <span aria-hidden className={`pointer-events-none absolute top-3 rounded-lg bg-panel px-2 py-0.5 text-sm ${right ? 'right-3' : 'left-3'}`}>
      {children}
    </span>
  );
}

/** Where A ends and B begins: a line that is drawn along, or moved by keys. */
function Wipe({ at, move }: { at: number; move: (to: number) => void }) {
  return (
    <>
      <input
        type="range"
        aria-label="Where A ends and B begins"
        className="peer absolute inset-0 size-full cursor-ew-resize opacity-0"
        min={0}
        max={100}
        step={0.5}
        value={at}
        aria-valuetext={`A up to ${at} % of the width`}
        onChange={({ target }) => move(Number(target.value))}
      />
      <span
        aria-hidden
        className="pointer-events-none absolute inset-y-0 w-0.5 -translate-x-1/2 bg-white shadow-[0_0_0_1px_rgb(0_0_0/0.4)] peer-focus-visible:bg-accent peer-focus-visible:outline-2 peer-focus-visible:outline-accent"
        style={{ left: `${at}%` }}
      />
    </>
  );
}

interface Below extends Compared {
  moved: Moved;
  toggler: RefObject<() => void>;
  stage: RefObject<HTMLElement | null>;
  tools?: ReactNode;
}

/** What stands below: the curve of differences, over the timeline that both have. */
function Under({ pair: { a, b, fps, frames }, curve, unsaid, keep, moved, toggler, stage, tools }: Below) {
  const fill = () => fullScreen(stage.current);
  useKey('f', canFill() ? fill : undefined);
  const frame = frameAt(moved.time, fps);
  const [one, other] = [until(a.scenes ?? [], frames / fps), until(b.scenes ?? [], frames / fps)];
  const kept = useRef(keep);
  kept.current = keep;
  useEffect(() => {
    if (moved.playing) return;
    const timer = setTimeout(() => kept.current((frame / fps).toFixed(3)), KEPT_MS);
    return () => clearTimeout(timer);
  }, [moved.playing, frame, fps]);
  return (
    <div className="space-y-1">
      {curve ? (
        <Curve values={curve} seek={(to) => moved.seek(Math.min(to, frames - 1) / fps)} />
      ) : (
        <p role="status" className="flex min-h-14 items-center text-xs text-muted wrap-anywhere">
          {unsaid ? `Frame by frame they were not compared: ${unsaid}` : 'Comparing frame by frame…'}
        </p>
      )}
      <Transport moved={moved} scenes={one} others={isAlike(one, other) ? undefined : other} toggler={toggler} stage={stage} isScreen end={<FullScreen fill={fill} />}>
        {tools}
      </Transport>
    </div>
  );
}

/** What a side is called. */
export function nameOf({ number, take, title, kind, format }: Side): string {
  const what = title ?? (take ? `Take ${take}` : '');
  const version = what ? `${what}, version ${number}` : `version ${number}`;
  return kind === 'final' ? `${version}, finished (${format ?? 'video'})` : version;
}

function wideOf({ a }: Pairing): number {
  return (a.width ?? 16) / (a.height ?? 9);
}
