/** Times as people read and type them, and the frames that they mean. Frame k is shown from k/fps on. */

const NEARLY = 1e-4;

export function frameAt(seconds: number, fps: number): number {
  return Math.floor(seconds * fps + NEARLY);
}

/** How many frames there are; a video has at least one. */
export function framesIn(duration: number, fps: number): number {
  return Math.max(1, Math.round(duration * fps));
}

/** Minutes, seconds and thousandths: 00:02.350. */
export function timecode(seconds: number): string {
  const thousandths = Math.round(Math.max(0, seconds) * 1000);
  const [minutes, rest] = [Math.floor(thousandths / 60_000), thousandths % 60_000];
  return `${String(minutes).padStart(2, '0')}:${(rest / 1000).toFixed(3).padStart(6, '0')}`;
}

/** Read what somebody typed: 2.35, 0:02.35, or a frame as f141. Returns seconds; undefined where it is neither. */
export function readTime(text: string, fps: number): number | undefined {
  const typed = text.trim().toLowerCase().replace(',', '.');
  const frame = /^f\s*(\d+)$/.exec(typed);
  if (frame) return Number(frame[1]) / fps;
  const parts = /^(?:(\d+):)?(\d+(?:\.\d*)?|\.\d+)\s*s?$/.exec(typed);
  return parts ? Number(parts[1] ?? 0) * 60 + Number(parts[2]) : undefined;
}
