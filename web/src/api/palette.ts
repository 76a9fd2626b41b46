/**
 * The colours of a film, and the words with which another takes them. Where its project has a theme, that names them; else they
 * are those that are seen in its picture. As numbers they mean the same to every agent, and to the director without a model.
 */
import { ask, Problem, unlessGone, type Schemas } from './client';

type Side = Schemas['ComparedSide'];
type Rgb = readonly [number, number, number];

/** As `#RRGGBB`. */
export interface Colours {
  ground: string;
  others: readonly string[];
}

const MOST = 5;
/** In how many steps a channel is counted, and how far apart two colours are that are told apart, of 255 in each channel. */
const STEPS = 16;
const APART = 64;
/** How much of a picture a colour takes that is seen. */
const SEEN = 0.004;
const LOOKED_PX = 48;

/** What a theme names: its ground's middle, and the family of its colours. */
export function coloursOfTheme(source: string): Colours | undefined {
  const named = (name: string) => new RegExp(`\\b${name}["']?\\s*:\\s*["'](#[0-9a-f]{6})\\b`, 'i').exec(source)?.[1];
  const [top, bottom] = [named('top'), named('bottom')];
  const family = /\bcolours["']?\s*:\s*\[([^\]]*)\]/i.exec(source)?.[1]?.match(/#[0-9a-f]{6}\b/gi) ?? [];
  if (!top || !bottom || family.length === 0) return undefined;
  const ground = hex(rgb(top).map((value, at) => (value + (rgb(bottom)[at] ?? value)) / 2) as unknown as Rgb);
  return { ground, others: [...new Set(family.map((each) => each.toUpperCase()))].slice(0, MOST) };
}

/** What is seen in a picture, as RGBA: the colour that most of it has, and those that stand out from it. */
export function coloursOfPicture(pixels: ArrayLike<number>): Colours | undefined {
  const bins = new Map<number, { count: number; sum: [number, number, number] }>();
  for (let at = 0; at + 3 < pixels.length; at += 4) {
    const [r, g, b] = [pixels[at] ?? 0, pixels[at + 1] ?? 0, pixels[at + 2] ?? 0];
    const key = [r, g, b].reduce((all, value) => all * STEPS + Math.floor((value * STEPS) / 256), 0);
    const bin = bins.get(key) ?? { count: 0, sum: [0, 0, 0] };
    bin.count += 1;
    bin.sum = [bin.sum[0] + r, bin.sum[1] + g, bin.sum[2] + b];
    bins.set(key, bin);
  }
  const seen = [...bins.values()].map(({ count, sum }) => ({ count, colour: sum.map((each) => each / count) as unknown as Rgb }));
  const ground = seen.reduce((most, each) => (each.count > most.count ? each : most), { count: 0, colour: [0, 0, 0] as Rgb });
  if (ground.count === 0) return undefined;
  const least = (pixels.length / 4) * SEEN;
  const found: Rgb[] = [];
  for (const { colour } of seen.filter(({ count }) => count >= least).sort((one, other) => weight(other) - weight(one)))
    if (found.length < MOST && [ground.colour, ...found].every((each) => apart(each, colour) >= APART)) found.push(colour);
  return { ground: hex(ground.colour), others: found.map(hex) };
}

/** What is asked for; without commas, which would make a list of it. */
export function wordsFor({ ground, others }: Colours, of: string): string {
  return `Take the colours of ${of}: ${[...others, ''].join(' ')}on a ${ground} background.`;
}

/** Find out what colours a side has. */
export async function coloursOf(side: Side): Promise<Colours> {
  const version = await versionOf(side);
  // of what is transparent the picture shows grey, which is none of its colours
  const seen = (side.transparent && version?.thumbnailUrl) || side.thumbnailUrl;
  const found = (await themeOf(side, version?.checkpointId)) ?? coloursOfPicture(await lookedAt(seen));
  if (!found) throw new Problem(0, 'NO_COLOURS', 'There are no colours to be found in this version.');
  return found;
}

async function versionOf({ sessionId, versionId }: Side): Promise<Schemas['VersionView'] | undefined> {
  const { versions } = await ask<Schemas['VersionPage']>(`/v1/sessions/${sessionId}/versions?limit=200`);
  return versions.find(({ id }) => id === versionId);
}

async function themeOf({ sessionId }: Side, checkpoint: string | null | undefined): Promise<Colours | undefined> {
  if (!checkpoint) return undefined;
  try {
    const source = await ask<Blob>(`/v1/sessions/${sessionId}/files/src/theme.ts?checkpoint=${checkpoint}`, { as: 'blob' });
    return coloursOfTheme(await source.text());
  } catch (problem) {
    unlessGone(problem);
    return undefined;
  }
}

async function lookedAt(address: string): Promise<ArrayLike<number>> {
  const picture = await createImageBitmap(await ask<Blob>(address, { as: 'blob' })).catch((problem: unknown) => {
    if (problem instanceof Problem) throw problem;
    return undefined; // it is none
  });
  const canvas = document.createElement('canvas');
  canvas.width = canvas.height = LOOKED_PX;
  const context = canvas.getContext('2d');
  if (!picture || !context) return [];
  context.imageSmoothingEnabled = false; // what lies between two colours is none of the film's
  context.drawImage(picture, 0, 0, LOOKED_PX, LOOKED_PX);
  return context.getImageData(0, 0, LOOKED_PX, LOOKED_PX).data;
}

function weight({ count, colour }: { count: number; colour: Rgb }): number {
  return Math.sqrt(count) * (0.2 + (Math.max(...colour) - Math.min(...colour)) / 255);
}

function apart(one: Rgb, other: Rgb): number {
  return Math.hypot(...one.map((value, at) => value - (other[at] ?? 0)));
}

function rgb(colour: string): Rgb {
  return [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16)) as unknown as Rgb;
}

function hex(colour: Rgb): string {
  return `#${colour.map((value) => Math.round(value).toString(16).padStart(2, '0')).join('')}`.toUpperCase();
}
