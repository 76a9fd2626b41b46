/** Renders as a list shows them: of sessions and of pages alike. */
import { leftWords, type Progress, stageWords } from '../../node/src/session';
import type { Schemas } from './client';
import { bytes, seconds } from './words';

export type RenderSummary = Schemas['RenderSummary'];
export type RenderView = Schemas['RenderView'];
export type Batch = Schemas['BatchView'];

/** What the address asks for, in words, and which states that is. */
export const SHOWN = {
  all: ['All', ['queued', 'running', 'succeeded', 'failed', 'cancelled']],
  running: ['Under way', ['queued', 'running']],
  done: ['Done', ['succeeded']],
  failed: ['Failed', ['failed']],
} as const satisfies Record<string, [string, readonly RenderSummary['status'][]]>;
export type Shown = keyof typeof SHOWN;

const OVER: readonly string[] = ['succeeded', 'failed', 'cancelled'];
const KINDS = { preview: 'Preview', final: 'Video', render: 'Page' };
const STATES: Record<RenderSummary['status'], string> = {
  queued: 'Waits for its turn',
  running: 'Rendering',
  succeeded: 'Done',
  failed: 'Failed',
  cancelled: 'Cancelled',
};

/** What an address's query asks for; all where it asks for nothing known. */
export function shownIn(query: string): Shown {
  const asked = new URLSearchParams(query).get('show') ?? '';
  return Object.hasOwn(SHOWN, asked) ? (asked as Shown) : 'all';
}

export function isOver({ status }: Pick<RenderSummary, 'status'>): boolean {
  return OVER.includes(status);
}

/** The address of a list of renders: of those that are shown, and have some words in their names. */
export function addressIn(shown: Shown, text: string): string {
  const params = new URLSearchParams();
  if (shown !== 'all') params.set('show', shown);
  if (text) params.set('q', text);
  const query = String(params);
  return query ? `/renders?${query}` : '/renders';
}

/** The states that are over of those that are shown. */
export function overStates(shown: Shown): RenderSummary['status'][] {
  return SHOWN[shown][1].filter((status) => OVER.includes(status));
}

/** One list of two that are read at different times: what one of them knows to be over is over, and nothing is twice. */
export function merged(underWay: readonly RenderSummary[], over: readonly RenderSummary[]): RenderSummary[] {
  const done = new Map(over.map((each) => [each.id, each]));
  const still = underWay.filter((each) => {
    const there = done.get(each.id);
    if (!there || there.updatedAt > each.updatedAt) return !there;
    done.delete(each.id); // it was taken up again since
    return true;
  });
  const newest = [...done.values()].sort((one, other) => other.createdAt.localeCompare(one.createdAt));
  return [...still, ...newest];
}

/** What it is called: by its session; a page by its file, or by its bundle's first letters. */
export function nameOf({ title, sessionId, entry, bundle, row }: RenderSummary): string {
  if (sessionId) return title ?? 'A session';
  const page = entry && entry !== 'index.html' ? entry : `Page ${bundle.slice(0, 8)}`;
  return row ? `${page}, row ${row}` : page;
}

/** Where it is, in words. */
export function stateWords({ status, stage }: RenderSummary): string {
  return status === 'running' && stage ? stageWords(stage) : STATES[status];
}

/** What is made, in words: kind, size, rate, format, length and bytes, as far as they are known. */
export function pictureWords({ kind, width, height, fps, format, duration, fileSize }: RenderSummary): string[] {
  return [
    KINDS[kind ?? 'render'],
    width && height ? `${width}×${height}` : '',
    fps ? `${Number(fps.toFixed(2))} fps` : '',
    format ?? '',
    duration ? seconds(duration) : '',
    fileSize ? bytes(fileSize) : '',
  ].filter(Boolean);
}

/** How far it is, in words. */
export function progressWords({ percent, framesDone, framesTotal, secondsLeft }: RenderSummary): string[] {
  const far = framesTotal ? `${framesDone ?? 0} of ${framesTotal} frames` : percent ? `${Math.round(percent)} %` : '';
  return [far, secondsLeft ? leftWords(secondsLeft) : ''].filter(Boolean);
}

/** Whether it can be made once more as it was, or deleted: a preview is what agents make as they work. */
export function canAgain(render: RenderSummary): boolean {
  return isOver(render) && render.kind !== 'preview';
}

/** Where it is deleted. */
export function addressOf({ id, sessionId }: Pick<RenderSummary, 'id' | 'sessionId'>): string {
  return sessionId ? `/v1/sessions/${sessionId}/finals/${id}` : `/v1/renders/${id}`;
}

/**
 * A page of what is over that is known, and not asked for again because there may be a newer one: where nothing new
 * came before it, it begins where it began. What was invalidated is read anew.
 */
export function pageKept<Page>(known: { pages: Page[]; pageParams: unknown[] } | undefined, isInvalidated: boolean, from: string | null): Page | undefined {
  return known && !isInvalidated && from !== null ? known.pages[known.pageParams.indexOf(from)] : undefined;
}

/** An order whose answer may have been lost, and the key that it was sent with. */
export interface Order {
  name: 'cancel' | 'again';
  key: string;
}

/** What is sent: the same request where this very order was sent before, and another one for another. */
export function orderOf(name: Order['name'], unanswered: Order | undefined, key: () => string): Order {
  return unanswered?.name === name ? unanswered : { name, key: key() };
}

/** What became of renders since they were looked at before, for who hears it. */
export function endedWords(before: readonly RenderSummary[], now: readonly RenderSummary[]): string[] {
  const waited = new Set(before.filter((each) => !isOver(each)).map(({ id }) => id));
  return now.filter((each) => waited.has(each.id) && isOver(each)).map((each) => `${nameOf(each)}: ${stateWords(each)}`);
}

/** A page's render as lists show it. */
export function summaryOf(view: RenderView): RenderSummary {
  const { spec, request, result, progress, status } = view;
  const scale = number(spec?.scale) ?? 1;
  const told = isOver({ status }) ? {} : progress;
  return {
    ...view,
    kind: 'render',
    percent: number(progress.percent) ?? 0,
    stage: word(told.stage) ?? null,
    framesDone: number(told.framesDone) ?? null,
    framesTotal: number(told.framesTotal) ?? null,
    secondsLeft: number(told.secondsLeft) ?? null,
    width: spec ? Math.round((number(spec.width) ?? 0) * scale) : null,
    height: spec ? Math.round((number(spec.height) ?? 0) * scale) : null,
    fps: rateOf(spec?.fps) ?? null,
    format: word(spec?.format) ?? word(request.format) ?? null,
    transparent: Boolean(spec?.alpha ?? request.alpha),
    duration: number(result?.duration) ?? number(spec?.durationS) ?? number(request.durationS) ?? null,
    fileSize: number(result?.fileSize) ?? null,
  };
}

/** How far a page's render is, as whoever watches it is told; nothing where it is not under way. */
export function progressOf({ id, status, progress }: RenderView): Progress | undefined {
  return status === 'running' ? { percent: 0, stage: '', ...progress, jobId: id } : undefined;
}

/** What a page is rendered with, by name: as it came to once the page was read, and until then as it was asked for. */
export function optionsIn({ entry, bundle, request, spec }: RenderView): [name: string, value: string][] {
  const all: Record<string, unknown> = { ...request, ...spec };
  const [width, height] = Array.isArray(all.size) && !spec ? (all.size as unknown[]) : [all.width, all.height];
  const rate = rateOf(all.fps);
  const sounds = Array.isArray(all.audio) ? all.audio.length : 0;
  const named: [string, string | false | undefined][] = [
    ['Page', entry],
    ['Bundle', bundle.slice(0, 12)],
    ['Preset', word(all.preset)],
    ['Viewport', width !== undefined && `${String(width)} × ${String(height)}${Number(all.scale ?? 1) === 1 ? '' : ` at ${String(all.scale)}×`}`],
    ['Frames each second', rate !== undefined && String(Number(rate.toFixed(3)))],
    ['Length', number(all.durationS) !== undefined && seconds(number(all.durationS) ?? 0)],
    ['Format', `${word(all.format) ?? 'mp4'}${all.alpha ? ', transparent' : ''}`],
    ['Quality', number(all.bitrateKbps) !== undefined ? `${String(all.bitrateKbps)} kbit/s` : number(all.crf) !== undefined && `CRF ${String(all.crf)}`],
    ['Effort', all.effort !== 'fast' && word(all.effort)],
    ['Seed', number(all.seed) !== undefined && all.seed !== 1 && String(all.seed)],
    ['Sound', sounds > 0 && (sounds === 1 ? '1 file' : `${sounds} files`)],
    ['Errors of the page', all.strict === false && 'It goes on'],
    ['Data', all.props !== '{}' && readable(word(all.props))],
  ];
  return named.filter((each): each is [string, string] => Boolean(each[1]));
}

/** Whether nothing of a batch waits or is under way. */
export function isBatchOver({ queued, running }: Batch): boolean {
  return !queued && !running;
}

/** How far a batch is, in words, and of how much of it nothing more comes, in percent. */
export function batchWords({ renders, succeeded, failed, cancelled, running, queued }: Batch): { words: string; percent: number } {
  const counts: [number | undefined, string][] = [[succeeded, 'done'], [running, 'under way'], [queued, 'waiting'], [failed, 'failed'], [cancelled, 'cancelled']]; // prettier-ignore
  const told = counts.flatMap(([count, what]) => (count ? [`${count} ${what}`] : []));
  return { words: told.join(' · '), percent: renders ? (100 * (renders - (running ?? 0) - (queued ?? 0))) / renders : 100 };
}

/** What the page did not get as it was rendered. */
export function warningsIn({ result }: RenderView): string[] {
  const found = result?.warnings;
  return Array.isArray(found) ? found.map(String) : [];
}

/** JSON with its letters as they are read. */
function readable(json: string | undefined): string | undefined {
  try {
    return json && JSON.stringify(JSON.parse(json));
  } catch {
    return json;
  }
}

/** Frames a second, of a number or of text such as 30000/1001. */
function rateOf(value: unknown): number | undefined {
  const [above = NaN, below = 1] = typeof value === 'string' ? value.split('/').map(Number) : [number(value)];
  return Number.isFinite(above / below) ? above / below : undefined;
}

function number(value: unknown): number | undefined {
  return typeof value === 'number' ? value : undefined;
}

function word(value: unknown): string | undefined {
  return typeof value === 'string' && value ? value : undefined;
}
