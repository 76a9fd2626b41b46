/** The very frame that a video shows, as a PNG of the video's own size. */

export async function pictureOf(video: HTMLVideoElement | null, src: string): Promise<Blob> {
  if (!video) throw new Error('there is no video');
  if (video.seeking) await new Promise((there) => video.addEventListener('seeked', there, { once: true }));
  try {
    return await drawn(video);
  } catch (error) {
    if (!(error instanceof DOMException && error.name === 'SecurityError')) throw error;
    return drawn(await fromHere(src, video.currentTime)); // it came from a bucket, whose pictures no page may read
  }
}

interface Part {
  x: number;
  y: number;
  width: number;
  height: number;
}

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
