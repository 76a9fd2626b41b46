import { Camera, Grid2x2, MousePointerClick } from 'lucide-react';
import { type CSSProperties, type ReactNode, useEffect, useRef, useState, useSyncExternalStore } from 'react';
import { useAct } from '../api/acts';
import { Problem } from '../api/client';
import type { Picked } from '../api/live';
import type { Moved, Range } from '../api/moved';
import { type Draft, MOST, type Note, usePointing } from '../api/notes';
import type { Stretch } from '../api/scenes';
import { cropped, save } from '../api/still';
import { frameAt } from '../api/timecode';
import { storePicture } from '../api/uploads';
import { canFill, FILLED, FullScreen, fullScreen } from './full-screen';
import { useEscape } from './escape';
import { useKey } from './keys';
import { Outline, Pointer } from './pointer';
import { Said } from './said';
import { ICON, SWITCH, Transport } from './transport';

interface Props {
  wide: number;
  /** What is shown, and what moves it; undefined until it can be moved. */
  children: ReactNode;
  moved: Moved | undefined;
  scenes: readonly Stretch[];
  begun?: unknown;
  /** What stands under the picture while it cannot be moved. */
  meanwhile?: ReactNode;
  /** Take a picture of the frame that is shown, as a PNG, where that can be done. */
  still?: ((time: number) => Promise<Blob>) | undefined;
  /** What is to be waited for before what is shown is what it is said to be; undefined where it is. */
  waits?: () => Promise<void> | undefined;
  /** What it is, over it, where that is not clear. */
  label?: string | undefined;
  name: string;
  clear?: (isClear: boolean) => void;
  pick?: (x: number, y: number) => Promise<Picked | undefined>;
  tools?: ReactNode;
  /** Where small frames of it are, or else there. */
  sprites?: readonly string[] | undefined;
}

const NONE: readonly Draft[] = [];
const unheard = () => () => {};

/** The picture with all that moves it, together on the whole screen where somebody wants that. */
export function Screen({ wide, children, moved, scenes, begun, meanwhile, still, waits, label, name, clear, pick, tools, sprites }: Props) {
  const whole = useRef<HTMLDivElement>(null);
  const toggler = useRef(() => {});
  const ranged = useRef<Range>(undefined);
  const [isClear, setClear] = useState(false);
  const [taking, setTaking] = useState(false);
  const [problem, setProblem] = useState<Problem>();
  const fill = () => fullScreen(whole.current);
  const take = async () => {
    if (!moved || !still || taking) return;
    moved.pause();
    setTaking(true);
    setProblem(undefined);
    try {
      const frame = frameAt(moved.time, moved.fps);
      save(await still(frame / moved.fps), `${name}-f${frame}.png`);
    } catch (error) {
      setProblem(error instanceof Problem ? error : new Problem(0, 'STILL_FAILED', `There is no picture of this frame: ${String(error)}`));
    }
    setTaking(false);
  };
  const pointing = usePointing();
  const notes = useSyncExternalStore(pointing?.notes.watch ?? unheard, () => pointing?.notes.list ?? NONE);
  const [points, setPoints] = useState(false);
  const pointer = useRef<HTMLButtonElement>(null);
  const canPoint = pointing !== undefined && still !== undefined && moved !== undefined && notes.length < MOST;
  const point = () => {
    moved?.pause();
    const waiting = canPoint ? waits?.() : undefined;
    if (waiting) void waiting.then(() => setPoints(true), () => undefined); // one points at what is seen
    else setPoints(canPoint);
  };
  const leave = () => {
    setPoints(false);
    pointer.current?.focus();
  };
  const note = ({ box, text, component, source }: Partial<Picked>) => {
    if (!pointing || !moved || !still) return;
    moved.pause();
    setPoints(false);
    if (document.fullscreenElement) void document.exitFullscreen(); // what is to be said is typed below the picture
    const frame = frameAt(moved.time, moved.fps);
    const time = frame / moved.fps;
    const { current: range } = ranged;
    const when = range && frame >= range.from && frame < range.to ? { time: range.from / moved.fps, until: range.to / moved.fps } : { time };
    const { width, height } = pointing;
    const told = { ...(box ? { box } : {}), ...(text ? { element: text } : {}), ...(component ? { component } : {}), ...(source ? { source } : {}) };
    const part = box ? { x: box.x / width, y: box.y / height, width: box.width / width, height: box.height / height } : { x: 0, y: 0, width: 1, height: 1 };
    pointing.notes.add({ ...when, frame, ...told }, async () => {
      const picture = await cropped(await still(time), part);
      return (await storePicture(new File([picture], `note-f${frame}.jpg`, { type: picture.type }))).id;
    });
  };
  const now = useRef({ show: (_: Note) => {}, point });
  now.current = { show: ({ time, frame }) => moved?.seek(frame === undefined || frame === null ? time : frame / moved.fps), point };
  useEffect(() => {
    if (!pointing) return;
    const { notes: held } = pointing;
    const stage = { show: (note: Note) => now.current.show(note), point: () => now.current.point() };
    held.stage = stage;
    return () => {
      if (held.stage === stage) held.stage = undefined;
    };
  }, [pointing?.notes]);
  useEffect(() => {
    if (isClear) clear?.(true); // a page that began anew paints its ground again
  }, [begun]);
  useEscape(points && leave, whole); // also where the keyboard went on from the picture
  useKey('p', canPoint ? point : undefined);
  useAct(canPoint && 'Point at something', point);
  useKey('n', canPoint ? () => note({}) : undefined);
  useKey('f', canFill() ? fill : undefined);
  useKey('s', moved && still && (() => void take()));
  return (
    <div
      ref={whole}
      className={`space-y-2 ${FILLED}`}
    >
      <div
        className={`picture ${isClear ? 'checkered' : 'bg-sunken'}`}
        style={{ '--wide': wide } as CSSProperties}
      >
        {children}
        {/* keys go on meaning what they mean here, whatever is pressed on */}
        {moved && <div className="absolute inset-0" onClick={() => toggler.current()} />}
        {pointing &&
          moved &&
          notes.map(
            ({ key, box, frame }, at) =>
              box &&
              frame === frameAt(moved.time, moved.fps) && (
                <Outline key={key} box={box} width={pointing.width} height={pointing.height} label={String(at + 1)} />
              ),
          )}
        {label && <p className="pointer-events-none absolute top-2 left-2 max-w-[calc(100%-1rem)] rounded-lg bg-panel px-2.5 py-1 text-sm sm:top-3 sm:left-3">{label}</p>}
        {points && pointing && <Pointer width={pointing.width} height={pointing.height} pick={pick} take={note} leave={leave} isNew={notes.length === 0} />}
      </div>
      <Said problem={problem} />
      {moved ? (
        <Transport
          scenes={scenes}
          moved={moved}
          begun={begun}
          toggler={toggler}
          ranged={ranged}
          marks={notes.map(({ time }) => time)}
          stage={whole}
          looked={sprites && { sprites, wide }}
          end={<FullScreen fill={fill} />}
        >
          {pointing && (
            <button
              ref={pointer}
              type="button"
              className={SWITCH}
              aria-label="Point at something"
              title="Point at something, and say what should be different (P); a note on the whole frame: N"
              aria-pressed={points}
              disabled={!canPoint}
              onClick={points ? leave : point}
            >
              <MousePointerClick aria-hidden className="size-4" />
            </button>
          )}
          {tools}
          <button
            type="button"
            className={SWITCH}
            aria-label="Checkerboard behind what is transparent"
            title="Checkerboard behind what is transparent"
            aria-pressed={isClear}
            onClick={() => {
              clear?.(!isClear);
              setClear(!isClear);
            }}
          >
            <Grid2x2 aria-hidden className="size-4" />
          </button>
          {still && (
            <button type="button" className={ICON} aria-label="Save this frame as a picture" title="Save this frame as a PNG (S)" disabled={taking} onClick={() => void take()}>
              <Camera aria-hidden className={`size-4 ${taking ? 'breathing' : ''}`} />
            </button>
          )}
        </Transport>
      ) : (
        <div className="flex items-center justify-between gap-3">
          {meanwhile ?? <span />}
          {tools}
        </div>
      )}
    </div>
  );
}
