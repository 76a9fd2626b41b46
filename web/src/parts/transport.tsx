import { ChevronLeft, ChevronRight, Pause, Play } from 'lucide-react';
import { type FormEvent, type ReactNode, useState } from 'react';
import type { Schemas } from '../api/client';
import { frameAt, framesIn, readTime, timecode } from '../api/timecode';
import { useKey } from './keys';
import { Scenes } from './scenes';

/** What is moved: seconds in, seconds out. */
export interface Moved {
  time: number;
  duration: number;
  fps: number;
  playing: boolean;
  seek: (time: number) => void;
  play: () => void;
  pause: () => void;
}

export const ICON = 'grid size-9 shrink-0 place-items-center rounded-lg text-muted hover:bg-sunken hover:text-text';

/** Play, pause, and go to a frame: by the slider, by steps, or by typing where. */
export function Transport({ moved, scenes, children }: { moved: Moved; scenes: Schemas['Plan']['scenes']; children?: ReactNode }) {
  const { time, duration, fps, playing, seek, play, pause } = moved;
  const frames = framesIn(duration, fps);
  const frame = Math.min(frameAt(time, fps), frames - 1);
  const go = (to: number) => seek(Math.min(Math.max(to, 0), frames - 1) / fps);
  const toggle = playing ? pause : play;
  useKey(' ', toggle);
  useKey('k', toggle);
  return (
    <div className="flex flex-wrap items-center gap-y-1 sm:gap-x-1">
      <input
        type="range"
        aria-label="Frame"
        className="m-0 h-6 w-full basis-full accent-(--accent)"
        min={0}
        max={frames - 1}
        step={1}
        value={frame}
        aria-valuetext={`frame ${frame} of ${frames}${sceneAt(time, scenes)}`}
        onChange={({ target }) => go(Number(target.value))}
      />
      {scenes.length > 0 && (
        <div className="w-full pb-1">
          <Scenes scenes={scenes} time={time} seek={(to) => go(frameAt(to, fps))} />
        </div>
      )}
      <button type="button" className={ICON} aria-label={playing ? 'Pause' : 'Play'} title="Space or K" onClick={toggle}>
        {playing ? <Pause aria-hidden className="size-4 fill-current" /> : <Play aria-hidden className="size-4 fill-current" />}
      </button>
      <button type="button" className={ICON} aria-label="A frame back" title="A frame back" onClick={() => go(frame - 1)}>
        <ChevronLeft aria-hidden className="size-4" />
      </button>
      <button type="button" className={ICON} aria-label="A frame on" title="A frame on" onClick={() => go(frame + 1)}>
        <ChevronRight aria-hidden className="size-4" />
      </button>
      <span className="flex-1" />
      <Readout key={playing ? 'plays' : 'stands'} time={frame / fps} frame={frame} frames={frames} fps={fps} seek={(to) => go(frameAt(to, fps))} />
      {children}
    </div>
  );
}

function Readout({ time, frame, frames, fps, seek }: { time: number; frame: number; frames: number; fps: number; seek: (to: number) => void }) {
  const [typed, setTyped] = useState<string>();
  const to = typed === undefined ? undefined : readTime(typed, fps);
  const leave = (event: FormEvent) => {
    event.preventDefault();
    if (to === undefined) return;
    seek(to);
    setTyped(undefined);
  };
  if (typed === undefined)
    return (
      <button
        type="button"
        title="Go to a time, or to a frame: f141"
        className="min-h-8 rounded-lg px-1 text-sm sm:px-2 text-muted tabular-nums hover:bg-sunken hover:text-text"
        onClick={() => setTyped('')}
      >
        {timecode(time)} · f {frame}/{frames}
        <span className="sr-only">: go elsewhere</span>
      </button>
    );
  return (
    <form onSubmit={leave}>
      <input
        aria-label="Time, or frame as f141"
        placeholder="2.35 or f141"
        autoFocus
        className="field w-32! px-2 py-1 text-sm tabular-nums"
        aria-invalid={typed !== '' && to === undefined}
        value={typed}
        onChange={({ target }) => setTyped(target.value)}
        onBlur={() => setTyped(undefined)}
        onKeyDown={(event) => event.key === 'Escape' && setTyped(undefined)}
      />
    </form>
  );
}

function sceneAt(time: number, scenes: Schemas['Plan']['scenes']): string {
  let ends = 0;
  const scene = scenes.find(({ duration }) => time < (ends += duration) - 1e-4);
  return scene ? `, scene ${scene.number} ${scene.title}` : '';
}
