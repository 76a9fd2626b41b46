// Everything that goes wrong in the page, in one list that whoever renders it can read.
//
// Nothing is swallowed: what is recorded here also goes to the console. The same error, thrown at each of 300 frames, is
// one entry.

export interface PageError {
  readonly message: string;
  readonly stack: string;
  readonly source: 'error' | 'rejection' | 'react' | 'asset' | 'ready';
}

const MAX_ERRORS = 50;
const list: PageError[] = [];
export const errors: readonly PageError[] = list;

// Production React says only a number; these are the ones that generated code runs into.
const REACT_MESSAGES: Record<string, string> = {
  31: 'an object is not valid as a React child (render its fields, or JSON.stringify it)',
  62: 'the style prop must be an object, not a string',
  130: 'an element type is undefined or not a component: a component is not exported or imported under that name',
  137: 'a void element such as <img> or <input> must not have children',
  152: 'nothing was returned from render: a return statement is missing',
  185: 'maximum update depth exceeded: setState is called again by every render or effect',
  300: 'rendered fewer hooks than expected: a hook is called conditionally or after an early return',
  301: 'too many re-renders: setState is called during render without a condition',
  310: 'rendered more hooks than during the previous render: a hook is called conditionally',
  321: 'invalid hook call: a hook is called outside of a component',
};

function spelledOut(message: string): string {
  const code = /Minified React error #(\d+)/.exec(message)?.[1];
  const meaning = code ? REACT_MESSAGES[code] : undefined;
  return meaning ? `React: ${meaning} (#${code})` : message;
}

/** Add one error; returns false where the same was there already. */
export function record(thrown: unknown, source: PageError['source'], context = ''): boolean {
  const error = thrown instanceof Error ? thrown : undefined;
  const message = spelledOut(error ? `${error.name}: ${error.message}` : String(thrown));
  const stack = `${error?.stack ?? ''}${context}`;
  if (list.some((known) => known.message === message)) return false;
  if (list.length < MAX_ERRORS) list.push({ message, stack, source });
  return true;
}

/** Listen for what nobody catches. Called once, by boot.ts. */
export function collectErrors(): void {
  window.addEventListener(
    'error',
    (event: Event) => {
      if (event instanceof ErrorEvent) {
        const place = event.filename ? `\n    at ${event.filename}:${event.lineno}:${event.colno}` : '';
        record(event.error ?? event.message, 'error', event.error ? '' : place);
      } else if (event.target instanceof HTMLElement) {
        const element = event.target;
        const url = element.getAttribute('src') ?? element.getAttribute('href') ?? '';
        record(`could not load <${element.tagName.toLowerCase()}> ${url}`, 'asset');
      }
    },
    true,
  );
  window.addEventListener('unhandledrejection', (event) => record(event.reason, 'rejection'));
}
