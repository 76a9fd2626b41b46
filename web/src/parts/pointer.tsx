import { type KeyboardEvent, type PointerEvent, useEffect, useRef, useState } from 'react';
import type { Box, Picked } from '../api/live';
import { short } from '../api/notes';

interface Props {
  width: number;
  height: number;
  /** Says what is at a point, where somebody knows. */
  pick?: (x: number, y: number) => Promise<Picked | undefined>;
  take: (what: Partial<Picked> & { box: Box }) => void;
  leave: () => void;
  /** Whether nothing was pointed at yet, and how that is done is said. */
  isNew: boolean;
}

interface At {
  x: number;
  y: number;
}

const STEPS = 50;
const LEAST = 0.015;
const AROUND = 0.12;
/** Below this much of the picture, what says how to point is on its top. */
const LOW = 0.75;

/** Lies over the picture while somebody points: what is there is outlined and taken by a click; or a box is drawn around it. */
export function Pointer({ width, height, pick, take, leave, isNew }: Props) {
  const whole = useRef<HTMLDivElement>(null);
  const [from, setFrom] = useState<At>();
  const [to, setTo] = useState<At>({ x: width / 2, y: height / 2 });
  const [found, setFound] = useState<Picked>();
  const [byKeys, setByKeys] = useState(false);
  const asks = useRef({ isBusy: false, next: undefined as At | undefined });
  const isTaken = useRef(false);
  useEffect(() => whole.current?.focus({ preventScroll: true }), []);
  useEffect(() => {
    // a browser would have the finger press once more, as a mouse, on what is there by then; when it tells, this is gone from the page
    whole.current?.addEventListener('touchend', (event) => event.preventDefault());
  }, []);

  const place = ({ clientX, clientY }: PointerEvent): At => {
    const { left, top, width: wide, height: high } = (whole.current as HTMLElement).getBoundingClientRect();
    const within = (value: number) => Math.min(1, Math.max(0, value));
    return { x: within((clientX - left) / wide) * width, y: within((clientY - top) / high) * height };
  };
  const look = async (at: At) => {
    if (!pick) return;
    asks.current.next = at;
    if (asks.current.isBusy) return;
    asks.current.isBusy = true;
    for (let next: At | undefined = at; next; next = asks.current.next) {
      asks.current.next = undefined;
      setFound(await pick(next.x, next.y));
    }
    asks.current.isBusy = false;
  };
  const isBox = (begun: At | undefined, at: At): begun is At =>
    begun !== undefined && Math.abs(at.x - begun.x) > width * LEAST && Math.abs(at.y - begun.y) > height * LEAST;
  const done = async (begun: At | undefined, at: At) => {
    if (isTaken.current) return;
    isTaken.current = true;
    if (isBox(begun, at)) take({ box: between(begun, at) });
    else take((await pick?.(at.x, at.y)) ?? { box: around(at, width, height) });
  };
  const pressed = (event: KeyboardEvent) => {
    const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (event.key === 'Escape') leave();
    else if (event.key === 'Enter' || event.key === ' ') void done(from, to);
    else if (way && !isTaken.current) {
      const [x = 0, y = 0] = way;
      const next = {
        x: Math.min(width, Math.max(0, to.x + (x * width) / STEPS)),
        y: Math.min(height, Math.max(0, to.y + (y * height) / STEPS)),
      };
      if (event.shiftKey) setFrom(from ?? to);
      else setFrom(undefined);
      setTo(next);
      setByKeys(true);
      void look(next);
    } else if (!isTaken.current) return; // what is typed before there is a place for it means nothing to the page
    event.preventDefault();
    event.stopPropagation();
  };
  const drawn = isBox(from, to) ? between(from, to) : undefined;
  const shown = drawn ?? found?.box;
  const named = drawn ? 'A box' : [found?.text && `“${short(found.text)}”`, found?.component].filter(Boolean).join(' · ');
  return (
    <div
      ref={whole}
      tabIndex={0}
      role="application"
      aria-label="Point at the picture: arrow keys move, with Shift they draw a box, Enter takes what is there, Escape leaves"
      className="absolute inset-0 cursor-crosshair touch-none -outline-offset-2"
      onKeyDown={pressed}
      onPointerDown={(event) => {
        event.currentTarget.setPointerCapture(event.pointerId);
        setFrom(place(event));
        setTo(place(event));
      }}
      onPointerMove={(event) => {
        const at = place(event);
        setByKeys(false);
        setTo(at);
        if (!event.buttons) {
          setFrom(undefined);
          void look(at);
        }
      }}
      onPointerUp={(event) => void done(from, place(event))}
    >
      {shown && <Outline box={shown} width={width} height={height} label={named} />}
      {byKeys && (
        <span
          aria-hidden
          className="absolute size-5 -translate-1/2 rounded-full border-2 border-white shadow-[0_0_0_1px_#000]"
          style={{ left: `${(to.x / width) * 100}%`, top: `${(to.y / height) * 100}%` }}
        />
      )}
      {isNew && !drawn && (
        <p
          aria-hidden
          className={`pointer-events-none absolute inset-x-2 mx-auto w-fit rounded-lg bg-panel px-2.5 py-1 text-center text-sm ${to.y > height * LOW ? 'top-2' : 'bottom-2'}`}
        >
          Click what you mean, or draw a box around it<span className="hidden sm:inline">. By keys: arrows, then Enter. Esc leaves</span>
        </p>
      )}
      <p role="status" className="sr-only">
        {named}
      </p>
    </div>
  );
}

/** A frame around a part of the picture, which is seen on whatever is there. */
export function Outline({ box, width, height, label }: { box: Box; width: number; height: number; label?: string }) {
  const style = {
    left: `${(box.x / width) * 100}%`,
    top: `${(box.y / height) * 100}%`,
    width: `${(box.width / width) * 100}%`,
    height: `${(box.height / height) * 100}%`,
  };
  return (
    <div aria-hidden className="pointer-events-none absolute rounded-sm border-2 border-white shadow-[0_0_0_1.5px_#4f46e5]" style={style}>
      {label && (
        <span className="absolute top-0 left-0 max-w-60 -translate-y-full truncate rounded-md bg-[#4f46e5] px-1.5 py-0.5 text-xs text-white">{label}</span>
      )}
    </div>
  );
}

function between(one: At, other: At): Box {
  return { x: Math.min(one.x, other.x), y: Math.min(one.y, other.y), width: Math.abs(one.x - other.x), height: Math.abs(one.y - other.y) };
}

function around({ x, y }: At, width: number, height: number): Box {
  const side = Math.min(width, height) * AROUND;
  return { x: Math.max(0, x - side / 2), y: Math.max(0, y - side / 2), width: side, height: side };
}
