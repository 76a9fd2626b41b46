import { ArrowRightFromLine, ArrowRightToLine, ChevronLeft, ChevronRight, Ellipsis, Pause, Play, Repeat, X } from 'lucide-react';
import { type FormEvent, type KeyboardEvent, type ReactNode, type RefObject, useContext, useEffect, useId, useRef, useState } from 'react';
import { beginning, type How, marked, type Moved, type Range, rateOf, shifted, SPEEDS } from '../api/moved';
import { KeepsPlace, onGoing, putPlace, rangeOf, readPlace } from '../api/place';
import { sceneBeside, type Stretch } from '../api/scenes';
import { firstFrame, frameAt, framesIn, readTime, timecode } from '../api/timecode';
import { useKey } from './keys';
import { Scenes } from './scenes';
import { type Looked, Timeline } from './timeline';

export const ICON =
  'grid size-9 shrink-0 place-items-center rounded-lg text-muted hover:bg-sunken hover:text-text disabled:opacity-50';
/** A button that is on for a while, which is to be seen. */
export const SWITCH = `${ICON} aria-pressed:bg-accent-ground aria-pressed:text-accent`;

interface Set {
  speed: number;
  gear: number;
  loop: boolean;
  range: Range | undefined;
}

interface Props {
  moved: Moved;
  scenes: readonly Stretch[];
  /** The scenes of the film beside it, B, where they are others. */
  others?: readonly Stretch[] | undefined;
  /** Another one where it began anew by itself, and plays as it likes until it is told how. */
  begun?: unknown;
  /** Is given what plays and pauses. */
  toggler?: RefObject<() => void>;
  /** Is given the part that is played. */
  ranged?: RefObject<Range | undefined>;
  /** Times that are marked, in seconds. */
  marks?: readonly number[];
  /** What it is in: keys that move any page move this only where somebody is at it. */
  stage: RefObject<HTMLElement | null>;
  /** Whether that is what the whole screen is about: the keys to its ends are the film's, wherever one is. */
  isScreen?: boolean;
  /** What else can be done with what is shown. */
  children?: ReactNode;
  /** What is at the end, however narrow it is. */
  end?: ReactNode;
  /** Where small frames of it are, and how wide they are beside their height. */
  looked?: Looked | undefined;
}

/** Play, at any speed and in both directions, a part or all of it; go to a frame by slider, steps or scenes, or by typing where. */
export function Transport({ moved, scenes, others, begun, toggler, ranged, marks = [], stage, isScreen = false, children, end, looked }: Props) {
  const { time, duration, fps, playing, seek, play, pause } = moved;
  const frames = framesIn(duration, fps);
  const frame = Math.min(frameAt(time, fps), frames - 1);
  const keeps = useContext(KeepsPlace);
  const [set, change] = useState<Set>(() => ({
    speed: 1,
    gear: 1,
    loop: true,
    range: keeps ? rangeOf(readPlace(window.location.search), fps, frames) : undefined,
  }));
  const [told, tell] = useState('');
  const [more, showMore] = useState(false);
  const began = useRef(frame);
  const beginner = useRef<HTMLButtonElement>(null);
  const go = (to: number) => seek(Math.min(Math.max(to, 0), frames - 1) / fps);
  const alter = (what: Partial<Set>, plays: boolean) => {
    const next = { ...set, ...what };
    change(next);
    if (!plays) return;
    const how = howOf(next, duration, fps);
    if (!playing) began.current = frameAt(beginning(frame / fps, how, fps), fps);
    play(how);
  };
  const toggle = playing ? pause : () => alter({ gear: 1 }, true);
  if (toggler) toggler.current = toggle;
  if (ranged) ranged.current = set.range;
  useEffect(() => {
    const { t } = keeps ? readPlace(window.location.search) : {};
    if (t) go(Math.round(t * fps));
  }, []);
  useEffect(() => {
    if (keeps && !playing) putPlace({ t: frame / fps, in: set.range && set.range.from / fps, out: set.range && set.range.to / fps });
  }, [keeps, playing, frame, fps, set.range]);
  const asked = useRef(go);
  asked.current = go;
  useEffect(() => (keeps ? onGoing((t) => asked.current(Math.round(t * fps))) : undefined), [keeps, fps]);
  const shift = (direction: 1 | -1) => alter({ gear: shifted(set.gear, direction, playing) }, true);
  const mark = (what: 'in' | 'out') => {
    const range = marked(set.range, what, frame, frames);
    alter({ range }, playing);
    tell(`Frames ${range.from} to ${range.to - 1} are played`);
  };
  const clear = () => {
    alter({ range: undefined }, playing);
    tell('All of it is played');
  };
  const step = (event: { key: string; shiftKey: boolean }) =>
    go(frame + (event.key === 'ArrowLeft' ? -1 : 1) * (event.shiftKey ? Math.round(fps) : 1));
  useKey(' ', toggle);
  useKey('k', toggle);
  useKey('j', () => shift(-1));
  useKey('l', () => shift(1));
  useKey('i', () => mark('in'));
  useKey('o', () => mark('out'));
  useKey('x', set.range && clear);
  useKey('ArrowLeft', step, { held: true });
  useKey('ArrowRight', step, { held: true });
  const scene = (by: -1 | 1) => {
    const at = sceneBeside(scenes, frame, fps, by);
    if (at !== undefined) go(at);
  };
  useKey('ArrowUp', scenes.length > 0 ? () => scene(-1) : undefined, { held: true, within: stage });
  useKey('ArrowDown', scenes.length > 0 ? () => scene(1) : undefined, { held: true, within: stage });
  const ends = isScreen ? undefined : stage;
  useKey('Home', () => go(0), { within: ends });
  useKey('End', () => go(frames - 1), { within: ends });
  const back = () => go(began.current);
  useKey('Enter', playing ? back : undefined, { first: true });
  const again = useRef(() => {});
  again.current = () => {
    if (playing && (set.speed !== 1 || set.gear !== 1 || !set.loop || set.range)) play(howOf(set, duration, fps));
  };
  useEffect(() => again.current(), [begun]);
  const keys = (event: KeyboardEvent) => {
    if (event.key === 'Enter' && playing) back();
    if (!event.shiftKey || !event.key.startsWith('Arrow')) return;
    event.preventDefault();
    step({ key: ['ArrowLeft', 'ArrowDown'].includes(event.key) ? 'ArrowLeft' : 'ArrowRight', shiftKey: true });
  };
  const rate = rateOf(set.speed, set.gear);
  return (
    <div className="@container space-y-1">
      <Timeline
        frame={frame}
        frames={frames}
        duration={duration}
        fps={fps}
        said={`frame ${frame} of ${frames}${sceneAt(time, scenes)}`}
        range={set.range}
        marks={marks}
        go={go}
        keys={keys}
        looked={looked}
      />
      {others ? (
        <div className="space-y-1">
          {([['A', scenes], ['B', others]] as const).map(([name, each]) => (
            <div key={name} className="relative">
              <span aria-hidden className="absolute top-1/2 right-full mr-1 -translate-y-1/2 text-xs text-muted">
                {name}
              </span>
              <Scenes name={`Scenes of ${name}`} scenes={each} time={time} seek={(to) => go(firstFrame(to, fps))} />
            </div>
          ))}
        </div>
      ) : (
        scenes.length > 0 && <Scenes scenes={scenes} time={time} seek={(to) => go(firstFrame(to, fps))} />
      )}
      <div className="flex flex-wrap items-center gap-x-1 gap-y-1 @min-[26rem]:gap-x-3">
        <div className="flex items-center">
          <button
            type="button"
            className="mr-1 grid size-10 shrink-0 place-items-center rounded-full bg-text text-ground hover:opacity-85"
            aria-label={playing ? 'Pause' : 'Play'}
            title="Space or K; Enter: stop, and back to where it began"
            onClick={toggle}
          >
            {playing ? <Pause aria-hidden className="size-4.5 fill-current" /> : <Play aria-hidden className="size-4.5 translate-x-px fill-current" />}
          </button>
          <button type="button" className={ICON} aria-label="A frame back" title="← (with Shift: a second)" onClick={() => go(frame - 1)}>
            <ChevronLeft aria-hidden className="size-4" />
          </button>
          <button type="button" className={ICON} aria-label="A frame on" title="→ (with Shift: a second)" onClick={() => go(frame + 1)}>
            <ChevronRight aria-hidden className="size-4" />
          </button>
        </div>
        <Readout time={frame / fps} frame={frame} frames={frames} fps={fps} seek={(to) => go(frameAt(to, fps))} />
        {playing && set.gear !== 1 && <span className="text-sm text-accent tabular-nums">{`${rate < 0 ? '−' : ''}${Math.abs(rate)}×`}</span>}
        <span className="grow" />
        <button
          type="button"
          className={`${ICON} aria-expanded:bg-sunken aria-expanded:text-text @min-[36rem]:order-2 @min-[45rem]:hidden`}
          aria-label="More"
          title="More"
          aria-expanded={more}
          onClick={() => showMore(!more)}
        >
          <Ellipsis aria-hidden className="size-4" />
        </button>
        <div className={`order-1 items-center @min-[36rem]:order-4 @min-[45rem]:order-1 @min-[45rem]:flex ${more ? 'flex' : 'hidden'}`} role="group" aria-label="What is played">
          {set.range && (
            <button
              type="button"
              className="mr-1 inline-flex min-h-7 items-center gap-1 rounded-lg bg-accent-ground px-2 text-xs text-accent tabular-nums"
              title="Play all of it (X)"
              onClick={() => {
                clear();
                beginner.current?.focus(); // this one goes
              }}
            >
              <span className="sr-only">Play all again, not only frames </span>
              {set.range.from}–{set.range.to - 1} <X aria-hidden className="size-3" />
            </button>
          )}
          <button ref={beginner} type="button" className={ICON} aria-label="Begin here" title="Play from this frame on (I)" onClick={() => mark('in')}>
            <ArrowRightFromLine aria-hidden className="size-4" />
          </button>
          <button type="button" className={ICON} aria-label="End here" title="Play up to this frame (O)" onClick={() => mark('out')}>
            <ArrowRightToLine aria-hidden className="size-4" />
          </button>
          <button type="button" className={`${ICON} aria-pressed:text-accent`} aria-label="Again and again" title="Again and again" aria-pressed={set.loop} onClick={() => alter({ loop: !set.loop }, playing)}>
            <Repeat aria-hidden className="size-4" />
          </button>
          <select
            aria-label="Speed"
            title="Speed"
            className="min-h-9 w-19 rounded-lg bg-transparent pr-6 pl-2 text-sm text-muted tabular-nums hover:bg-sunken hover:text-text"
            value={set.speed}
            onChange={({ target }) => alter({ speed: Number(target.value), gear: Math.sign(set.gear) }, playing)}
          >
            {SPEEDS.map((each) => (
              <option key={each} value={each}>
                {each}×
              </option>
            ))}
          </select>
        </div>
        <div className={`order-1 items-center @min-[36rem]:flex @min-[45rem]:order-2 ${more ? 'flex' : 'hidden'}`}>{children}</div>
        <div className="flex items-center @min-[36rem]:order-3">{end}</div>
      </div>
      <p role="status" className="sr-only">
        {told}
      </p>
    </div>
  );
}

function howOf({ speed, gear, loop, range }: Set, duration: number, fps: number): How {
  return { rate: rateOf(speed, gear), from: (range?.from ?? 0) / fps, to: range ? range.to / fps : duration, loop };
}

function Readout({ time, frame, frames, fps, seek }: { time: number; frame: number; frames: number; fps: number; seek: (to: number) => void }) {
  const [typed, setTyped] = useState<string>();
  const [isWrong, setWrong] = useState(false);
  const said = useId();
  const button = useRef<HTMLButtonElement>(null);
  const from = useRef<Element>(null); // none for who pressed with a pointer: the next keys are the page's
  const isOpen = typed !== undefined;
  const open = ({ detail }: { detail: number }) => {
    from.current = detail === 0 ? document.activeElement : null;
    setTyped('');
  };
  useKey('g', isOpen ? undefined : open);
  useEffect(() => {
    // back to where one was: at what opened it, or elsewhere on the page
    if (isOpen || document.activeElement !== document.body) return;
    const { current: was } = from;
    from.current = null;
    if (was instanceof HTMLElement && was !== document.body) (was.isConnected ? was : button.current)?.focus();
  }, [isOpen]);
  const to = typed === undefined ? undefined : readTime(typed, fps);
  const isPast = to !== undefined && frameAt(to, fps) > frames; // the end itself is the last frame
  const shut = () => {
    setTyped(undefined);
    setWrong(false);
  };
  const leave = (event: FormEvent) => {
    event.preventDefault();
    setWrong(to === undefined || isPast);
    if (to === undefined || isPast) return;
    seek(to);
    setTyped(undefined);
  };
  if (typed === undefined)
    return (
      <button
        ref={button}
        type="button"
        title="Go to a time, or to a frame: f141 (G)"
        className="min-h-8 rounded-lg px-1 text-left text-sm text-muted tabular-nums hover:bg-sunken hover:text-text @max-[26rem]:text-xs"
        onClick={open}
      >
        {timecode(time)}
        {/* on the narrowest screens there are two lines */}
        <span className="@max-[20rem]:sr-only"> · </span>
        <span className="@max-[20rem]:block">
          f {frame}/{frames}
        </span>
        <span className="sr-only">: go elsewhere</span>
      </button>
    );
  return (
    <form onSubmit={leave} className="flex min-w-0 flex-1 basis-32 flex-wrap items-center gap-x-2 gap-y-1">
      <input
        aria-label="Time, or frame as f141"
        placeholder="2.35 or f141"
        autoFocus
        className="field w-32! px-2 py-1 text-sm tabular-nums"
        aria-invalid={isPast || (typed !== '' && to === undefined)}
        aria-describedby={isWrong ? said : undefined}
        value={typed}
        onChange={({ target }) => {
          setTyped(target.value);
          setWrong(false);
        }}
        onBlur={shut}
        onKeyDown={(event) => {
          if (event.key !== 'Escape') return;
          event.preventDefault(); // and nothing that this is in
          shut();
        }}
      />
      {isWrong && (
        <p role="alert" id={said} className="text-sm text-bad">
          {isPast
            ? `It ends at ${timecode(frames / fps)}, and its last frame is f${frames - 1}.`
            : `${typed.trim() ? 'That is no time and no frame' : 'Type a time or a frame'}: 2.35, 0:02.35 or f141.`}
        </p>
      )}
    </form>
  );
}

function sceneAt(time: number, scenes: readonly Stretch[]): string {
  let ends = 0;
  const scene = scenes.find(({ duration }) => time < (ends += duration) - 1e-4);
  return scene ? `, scene ${scene.number} ${scene.title}` : '';
}
