/** The very frame that a video shows, as a PNG of the video's own size. */

const NEARLY_S = 1e-3;
const PAINTED_MS = 500;
const THERE_MS = 20_000;

/** The frame that a video has at a time, in whose middle that is; it is shown first. */
export async function pictureOf(video: HTMLVideoElement | null, src: string, middle: number): Promise<Blob> {
  if (!video) throw new Error('there is no video');
  await painted(video, middle);
  if (Math.abs(video.currentTime - middle) > NEARLY_S) return drawn(await fromHere(src, middle)); // somebody moved it on
  try {
    return await drawn(video);
  } catch (error) {
    if (!(error instanceof DOMException && error.name === 'SecurityError')) throw error;
    return drawn(await fromHere(src, middle)); // it came from a bucket, whose pictures no page may read
  }
}

/** Have a video show what it has at a time: one that was never moved has its poster on the screen, and nothing to be drawn. */
export async function painted(video: HTMLVideoElement, at: number): Promise<void> {
  const shown = new Promise<unknown>((told) => 'requestVideoFrameCallback' in video && video.requestVideoFrameCallback(told));
  const there = new Promise((found, failed) => {
    video.addEventListener('seeked', found, { once: true });
    setTimeout(() => failed(new Error('the video is not there yet')), THERE_MS);
  });
  video.currentTime = at;
  await there;
  await Promise.race([shown, after(PAINTED_MS)]); // out of sight nothing is painted, and a browser may not tell
}

function after(milliseconds: number): Promise<void> {
  return new Promise((over) => setTimeout(over, milliseconds));
}

interface Part {
  x: number;
  y: number;
  width: number;
  height: number;
}

/** At a frame's very beginning a browser may show the one before. */
const JUST_AFTER_S = 1 / 240;
const MARGIN = 0.15;
const SIDE_PX = 768;
const MOST_BYTES = 200_000;

/** Part of a picture with a little around it, or all of it, as a JPEG small enough to be sent along; of 1 by 1 is all of it. */
export async function cropped(picture: Blob, { x, y, width, height }: Part): Promise<Blob> {
  const whole = await createImageBitmap(picture);
  const within = (value: number) => Math.min(1, Math.max(0, value));
  const [left, right] = [within(x - width * MARGIN) * whole.width, within(x + width * (1 + MARGIN)) * whole.width];
  const [top, bottom] = [within(y - height * MARGIN) * whole.height, within(y + height * (1 + MARGIN)) * whole.height];
  const [wide, high] = [Math.max(1, right - left), Math.max(1, bottom - top)];
  for (let side = SIDE_PX; ; side /= 2) {
    const scale = Math.min(1, side / Math.max(wide, high));
    const canvas = document.createElement('canvas');
    [canvas.width, canvas.height] = [Math.max(1, Math.round(wide * scale)), Math.max(1, Math.round(high * scale))];
    canvas.getContext('2d')?.drawImage(whole, left, top, wide, high, 0, 0, canvas.width, canvas.height);
    const made = await encoded(canvas, 'image/jpeg');
    if (made.size <= MOST_BYTES || side < 100) return made;
  }
}

/** Two pictures in one, side by side, each as high as the first, as a PNG. */
export async function beside(one: Blob, other: Blob): Promise<Blob> {
  const [first, second] = await Promise.all([createImageBitmap(one), createImageBitmap(other)]);
  const width = Math.max(1, Math.round((second.width * first.height) / second.height));
  const canvas = document.createElement('canvas');
  [canvas.width, canvas.height] = [first.width + width, first.height];
  const context = canvas.getContext('2d');
  context?.drawImage(first, 0, 0);
  context?.drawImage(second, first.width, 0, width, first.height);
  return encoded(canvas, 'image/png');
}

/** Have a browser keep a picture, under a name. */
export function save(picture: Blob, name: string): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(picture);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

function drawn(video: HTMLVideoElement): Promise<Blob> {
  const canvas = document.createElement('canvas');
  [canvas.width, canvas.height] = [video.videoWidth, video.videoHeight];
  if (canvas.width === 0) throw new Error('the video is not there yet');
  canvas.getContext('2d')?.drawImage(video, 0, 0);
  return encoded(canvas, 'image/png');
}

function encoded(canvas: HTMLCanvasElement, type: 'image/png' | 'image/jpeg'): Promise<Blob> {
  return new Promise((found, failed) => {
    canvas.toBlob((made) => (made ? found(made) : failed(new Error('the browser made no picture'))), type, 0.85);
  });
}

/** The frame that a video has at a time, as a PNG, without the video being shown. */
export async function frameOf(src: string, time: number): Promise<Blob> {
  return drawn(await fromHere(src, time + JUST_AFTER_S));
}

/** The same video, sent by our own server, at the same time. */
async function fromHere(src: string, time: number): Promise<HTMLVideoElement> {
  const video = document.createElement('video');
  const came = (event: string) =>
    new Promise((found, failed) => {
      video.addEventListener(event, found, { once: true });
      video.addEventListener('error', () => failed(new Error('the video cannot be read')), { once: true });
    });
  video.muted = true;
  video.preload = 'auto';
  const ready = came('loadeddata');
  video.src = `${src}${src.includes('?') ? '&' : '?'}here=true`;
  await ready;
  const there = came('seeked');
  video.currentTime = time;
  await there;
  return video;
}
