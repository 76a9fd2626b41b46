/** Renders as a list shows them: of sessions and of pages alike. */
import { stageWords } from '../../node/src/session';
import type { Schemas } from './client';
import { bytes, left, seconds } from './words';

export type RenderSummary = Schemas['RenderSummary'];

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
  return [far, secondsLeft ? left(secondsLeft) : ''].filter(Boolean);
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
