// Says what is at a point of the picture: the element, its text, and the component and line of code that it comes from.
//
// Layers let the pointer through and letters are elements of their own, so what is asked for is not what a click would hit:
// it is the topmost thing that is drawn there and does not fill the picture, with the words that it belongs to. Components
// and lines are known in the development build, which the live preview is.
import { getTimeline } from './contract';

/** Where in the window, in its own pixels. */
interface Place {
  readonly left: number;
  readonly top: number;
  readonly width: number;
  readonly height: number;
}

/** What is there: its place in design pixels, and whatever is known of it; empty where nothing is. */
export interface Picked {
  readonly box: { readonly x: number; readonly y: number; readonly width: number; readonly height: number };
  readonly text: string;
  readonly component: string;
  readonly source: string;
}

/** What of a React tree is read. Source: react-reconciler, ReactInternalTypes.js (18.3). */
interface Fiber {
  readonly type: unknown;
  readonly return: Fiber | null;
  readonly child: Fiber | null;
  readonly sibling: Fiber | null;
  readonly stateNode: unknown;
  readonly _debugOwner?: Fiber | null;
  readonly _debugSource?: { readonly fileName: string; readonly lineNumber: number } | null;
}

interface Found {
  readonly place: Place;
  readonly fiber: Fiber | undefined;
  readonly text: string;
}

/** Looks into a canvas: what is drawn at a place of the window, or nothing that it knows of. */
export type Looker = (canvas: HTMLCanvasElement, x: number, y: number) => { place: Place; root: unknown; object: object; text: string } | undefined;

const lookers: Looker[] = [];
const WHOLE = 0.95;
const RUNTIME = /\bsrc\/koda\//;
const MOST_CHARS = 500;

export function addLooker(looker: Looker): void {
  lookers.push(looker);
}

/** What is at a point, in design pixels; undefined where the picture has nothing there. */
export function pick(x: number, y: number): Picked | undefined {
  const frame = document.getElementById('root')?.firstElementChild;
  if (!frame) return undefined;
  const { size } = getTimeline();
  const whole = frame.getBoundingClientRect();
  const [scaleX, scaleY] = [whole.width / size.width, whole.height / size.height];
  const found = at(whole.left + x * scaleX, whole.top + y * scaleY, frame, whole);
  if (!found) return undefined;
  const { left, top, width, height } = found.place;
  return {
    box: { x: (left - whole.left) / scaleX, y: (top - whole.top) / scaleY, width: width / scaleX, height: height / scaleY },
    text: found.text.replace(/\s+/g, ' ').trim().slice(0, MOST_CHARS),
    ...originOf(found.fiber),
  };
}

function at(x: number, y: number, frame: Element, whole: Place): Found | undefined {
  let behind: Found | undefined;
  for (const element of drawnAt(x, y)) {
    if (!frame.contains(element) || element === frame) continue;
    if (element instanceof HTMLCanvasElement) {
      const seen = lookers.map((look) => look(element, x, y)).find((each) => each && !fills(each.place, whole));
      if (seen) return { place: seen.place, fiber: fiberWith(seen.root, seen.object), text: seen.text };
    }
    const place = element.getBoundingClientRect();
    if (!fills(place, whole) || ownText(element)) return ofElement(wordOf(element, whole));
    behind ??= ofElement(element);
  }
  return behind;
}

/** All that is drawn at a place, topmost first, whether or not it takes the pointer. */
function drawnAt(x: number, y: number): Element[] {
  const style = document.createElement('style');
  style.textContent = '* { pointer-events: auto !important; }';
  document.head.append(style);
  try {
    return document.elementsFromPoint(x, y).filter((each) => each.checkVisibility({ opacityProperty: true, visibilityProperty: true }));
  } finally {
    style.remove();
  }
}

function fills(place: Place, whole: Place): boolean {
  return place.width >= whole.width * WHOLE && place.height >= whole.height * WHOLE;
}

function ownText(element: Element): boolean {
  return [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.textContent?.trim());
}

/** The words that a letter is part of, as long as they do not fill the picture. */
function wordOf(element: Element, whole: Place): Element {
  let word = element;
  const isLetter = (element.textContent?.trim().length ?? 0) === 1;
  for (let above = element.parentElement; isLetter && above && !fills(above.getBoundingClientRect(), whole); above = above.parentElement) word = above;
  return word;
}

function ofElement(element: Element): Found {
  const key = Object.keys(element).find((name) => name.startsWith('__reactFiber$'));
  const fiber = key ? ((element as unknown as Record<string, unknown>)[key] as Fiber) : undefined;
  return { place: element.getBoundingClientRect(), fiber, text: textOf(element) };
}

function textOf(element: Element): string {
  return element.textContent?.trim() || element.getAttribute('alt') || element.getAttribute('aria-label') || '';
}

/** The component and the line that something was written in, outside of this runtime. */
function originOf(fiber: Fiber | undefined): { component: string; source: string } {
  for (let each = fiber ?? null; each; each = each.return) {
    const written = each._debugSource;
    if (!written || RUNTIME.test(written.fileName)) continue;
    const file = written.fileName.slice(Math.max(0, written.fileName.lastIndexOf('/src/') + 1));
    return { component: nameOf(each._debugOwner?.type), source: `${file}:${written.lineNumber}` };
  }
  return { component: '', source: '' };
}

function nameOf(type: unknown): string {
  if (typeof type === 'function') return (type as { displayName?: string }).displayName ?? type.name;
  if (typeof type === 'object' && type !== null && 'type' in type) return nameOf(type.type);
  return '';
}

/** Find the part of a tree that stands for something, or for what that is in. */
function fiberWith(root: unknown, object: object): Fiber | undefined {
  const top = (root as { current?: Fiber } | null)?.current;
  for (let wanted: object | null = object; wanted; wanted = (wanted as { parent?: object | null }).parent ?? null) {
    const waiting = top ? [top] : [];
    for (let fiber = waiting.pop(); fiber; fiber = waiting.pop()) {
      if (fiber.stateNode === wanted) return fiber;
      if (fiber.sibling) waiting.push(fiber.sibling);
      if (fiber.child) waiting.push(fiber.child);
    }
  }
  return undefined;
}
