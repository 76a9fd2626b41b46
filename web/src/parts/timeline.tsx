import { type CSSProperties, type KeyboardEvent, type PointerEvent, useEffect, useState } from 'react';
import { ask, Problem } from '../api/client';
import type { Range } from '../api/moved';
import { type Grid, gridOf, placeIn } from '../api/sprite';
import { frameAt, mark, ruled, timecode } from '../api/timecode';

/** Half of the thumb's width: a slider's ends are where its thumb can be, and everything over it stands with that. */
const INSET_PX = 3;
/** How wide a small frame is, or how high where it is upright. */
const SMALL_PX = 160;
const NOWHERE: readonly string[] = [];
/** What a server answers that has no time for it now, and after how long it is asked again. */
const BUSY: readonly number[] = [429, 503];
const AGAIN_MS = 5_000;
/** Keys that move a slider. */
const MOVES = /^(Arrow|Home|End|Page)/;

/** Where small frames of a video are, or else there, and how wide they are beside their height. */
export interface Looked {
  sprites: readonly string[];
  wide: number;
}

interface Props {
  frame: number;
  frames: number;
  duration: number;
  fps: number;
  /** What is said of where it stands. */
  said: string;
  range: Range | undefined;
  /** Times that are marked, in seconds. */
  marks: readonly number[];
  go: (frame: number) => void;
  keys: (event: KeyboardEvent) => void;
  looked?: Looked | undefined;
}

/**
 * Where one is: a slider under its seconds; a pointer over it shows which frame and time are there. So does its thumb, while that is
 * moved by a finger, or has the focus of the keyboard.
 */
export function Timeline({ frame, frames, duration, fps, said, range, marks, go, keys, looked }: Props) {
  const [pointed, setPointed] = useState<number>();
  const [held, hold] = useState(false);
  const over = pointed ?? (held ? frame : undefined);
  const sprite = useSprite(looked?.sprites, duration, over !== undefined);
  const last = Math.max(1, frames - 1);
  const place = (at: number) => `calc(${INSET_PX}px + ${Math.min(1, at / last)} * (100% - ${2 * INSET_PX}px))`;
  const { labels, ticks } = ruled(duration);
  const moved = ({ pointerType, currentTarget, clientX }: PointerEvent) => {
    if (pointerType !== 'mouse') return;
    const { left, width } = currentTarget.getBoundingClientRect();
    setPointed(Math.min(last, Math.max(0, Math.round(((clientX - left - INSET_PX) / (width - 2 * INSET_PX)) * last))));
  };
  return (
    <div className="relative pt-4.5" onPointerMove={moved} onPointerLeave={() => setPointed(undefined)}>
      <div aria-hidden className="pointer-events-none absolute inset-x-0 top-0 h-4.5 text-[0.6875rem] leading-none text-muted tabular-nums select-none">
        {ticks.map((each) => (
          <span key={each} className="absolute bottom-0 h-1 w-px bg-line-strong opacity-50" style={{ left: place(each * fps) }} />
        ))}
        {labels.map((each, at) => (
          <span key={each} className="absolute bottom-0 h-full" style={{ left: place(each * fps) }}>
            <span className="absolute bottom-0 h-1.5 w-px bg-line-strong" />
            <span className={`absolute top-0 whitespace-nowrap ${at === 0 ? '' : each * fps > last - fps / 4 ? '-translate-x-full' : '-translate-x-1/2'}`}>
              {mark(each)}
              {at === 0 && ' s'}
            </span>
          </span>
        ))}
      </div>
      {range && (
        <span
          aria-hidden
          className="absolute bottom-1.5 h-3 rounded-sm bg-accent opacity-30"
          style={{ left: place(range.from), right: `calc(100% - ${place(range.to - 1)})` }}
        />
      )}
      <input
        type="range"
        aria-label="Frame"
        className="timeline relative"
        min={0}
        max={frames - 1}
        step={1}
        value={frame}
        aria-valuetext={said}
        onChange={({ target }) => go(Number(target.value))}
        onKeyDown={(event) => {
          if (MOVES.test(event.key)) hold(true); // who clicked it before goes on by keys
          keys(event);
        }}
        onFocus={({ target }) => hold(target.matches(':focus-visible'))}
        onBlur={() => hold(false)}
        onTouchStart={() => hold(true)}
        onTouchEnd={() => hold(false)}
        onTouchCancel={() => hold(false)}
      />
      {marks.map((each, at) => (
        <span
          key={at}
          aria-hidden
          className="pointer-events-none absolute top-1 grid size-4 -translate-x-1/2 place-items-center rounded-full bg-accent text-[0.625rem] font-medium text-on-accent"
          style={{ left: place(frameAt(each, fps)) }}
        >
          {at + 1}
        </span>
      ))}
      {over !== undefined && (
        <span
          aria-hidden
          className="pointer-events-none absolute top-2 z-10 flex -translate-x-1/2 -translate-y-full flex-col items-center gap-1"
          style={{ left: `clamp(${sprite ? 5.5 : 3.5}rem, ${place(over)}, 100% - ${sprite ? 5.5 : 3.5}rem)` }}
        >
          {sprite && looked && <Small {...sprite} wide={looked.wide} at={over / frames} />}
          <span className="rounded-md bg-text px-1.5 py-1 text-xs leading-none whitespace-nowrap text-ground tabular-nums">
            {timecode(over / fps)} · f {over}
          </span>
        </span>
      )}
    </div>
  );
}

/** Small frames, as soon as they are there: they are asked for once somebody looks, and again while the server has no time for it. */
function useSprite(addresses: readonly string[] = NOWHERE, duration: number, isWanted: boolean): { url: string; grid: Grid } | undefined {
  const [there, setThere] = useState<{ of: string; url: string }>();
  const [missing, setMissing] = useState(NOWHERE);
  const [wanted, setWanted] = useState(false);
  if (isWanted && !wanted) setWanted(true);
  const grid = gridOf(duration);
  const address = addresses.find((each) => !missing.includes(each));
  const url = address && `${address}?count=${grid.count}&w=${SMALL_PX}`;
  useEffect(() => {
    if (!wanted || !address || !url) return;
    const ending = new AbortController();
    let later: ReturnType<typeof setTimeout> | undefined;
    let made: string | undefined;
    const look = async () => {
      try {
        const picture = await ask<Blob>(url, { as: 'blob', signal: ending.signal });
        if (!ending.signal.aborted) setThere({ of: url, url: (made = URL.createObjectURL(picture)) });
      } catch (problem) {
        if (ending.signal.aborted) return;
        if (!(problem instanceof Problem)) throw problem;
        if (problem.status === 404) setMissing((before) => [...before, address]);
        else if (BUSY.includes(problem.status)) later = setTimeout(() => void look(), AGAIN_MS);
      }
    };
    void look();
    return () => {
      ending.abort();
      clearTimeout(later);
      if (made) URL.revokeObjectURL(made);
    };
  }, [wanted, address, url]);
  return there && there.of === url ? { url: there.url, grid } : undefined;
}

function Small({ url, grid, wide, at }: { url: string; grid: Grid; wide: number; at: number }) {
  const style: CSSProperties = { backgroundImage: `url("${url}")`, aspectRatio: wide, ...(wide < 1 ? { height: SMALL_PX } : { width: SMALL_PX }), ...placeIn(grid, at) };
  return <span data-small className="block rounded-lg border border-line bg-sunken shadow-sm" style={style} />;
}
