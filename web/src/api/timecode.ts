/** Times as people read and type them, and the frames that they mean. Frame k is shown from k/fps on. */

const NEARLY = 1e-4;

export function frameAt(seconds: number, fps: number): number {
  return Math.floor(seconds * fps + NEARLY);
}

/** The first frame that is shown at a time or after it: where something begins. */
export function firstFrame(seconds: number, fps: number): number {
  return Math.max(0, Math.ceil(seconds * fps - NEARLY));
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

const STEPS_S = [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120];
const MOST_LABELS = 8;

/** Where a timeline's labels and its ticks between them stand, in seconds: 8 labels at most, and 3 at least from 0.2 s on. */
export function ruled(duration: number): { labels: number[]; ticks: number[] } {
  const step = STEPS_S.find((each) => duration / each < MOST_LABELS) ?? Math.ceil(duration / (MOST_LABELS - 1));
  const count = Math.floor(duration / step + NEARLY);
  const labels = Array.from({ length: count + 1 }, (_, at) => Number((at * step).toFixed(3)));
  const parts = [1, 10].includes(step) || step === 0.1 ? 5 : 4;
  const ticks = Array.from({ length: Math.floor((duration / step) * parts + NEARLY) + 1 }, (_, at) => at);
  return { labels, ticks: ticks.filter((at) => at % parts > 0).map((at) => Number(((at * step) / parts).toFixed(4))) };
}

/** A time on a timeline, as short as it can be: 0.5, 4, 1:30. */
export function mark(seconds: number): string {
  if (seconds < 60) return String(Number(seconds.toFixed(2)));
  return `${Math.floor(seconds / 60)}:${String(Math.round(seconds % 60)).padStart(2, '0')}`;
}
