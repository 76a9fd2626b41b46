import { Maximize } from 'lucide-react';
import { ICON } from './transport';

/** What it looks like on the whole screen: the picture in the middle, what moves it below. */
export const FILLED = '[&:fullscreen]:flex [&:fullscreen]:flex-col [&:fullscreen]:justify-center [&:fullscreen]:bg-ground [&:fullscreen]:p-4';

/** Whether a part of the page may have the whole screen: on some phones only a video may, and in a frame it may be forbidden. */
export const canFill = (): boolean => document.fullscreenEnabled;

/** Have a part of the page on the whole screen, or back in its place. */
export function fullScreen(part: HTMLElement | null): void {
  const going = document.fullscreenElement ? document.exitFullscreen() : part?.requestFullscreen();
  going?.catch(() => undefined); // the browser let it not: all of it is where it was
}

export function FullScreen({ fill }: { fill: () => void }) {
  if (!canFill()) return null;
  return (
    <button type="button" className={ICON} aria-label="Full screen" title="F" onClick={fill}>
      <Maximize aria-hidden className="size-4" />
    </button>
  );
}
