/**
 * What draws a terminal and takes keys: xterm.js, with the page's colours. It is drawn by elements, whose styles xterm.js writes into
 * style elements; the page's policy has none of these, so what they say is adopted as a style sheet that was constructed.
 */
import { FitAddon } from '@xterm/addon-fit';
import { type ITheme, Terminal } from '@xterm/xterm';
import '@xterm/xterm/css/xterm.css';
import { leavesAt, SCROLL, SCROLLED_LINES, type Size, Wheel } from '../api/shell';
import './terminal.css';

const FONT = 'ui-monospace, SFMono-Regular, Menlo, Consolas, "Liberation Mono", monospace';
const FONT_PX = 13;
/** So much as WCAG 2.2 AA asks for. */
const CONTRAST = 4.5;
/** What tells a shell that somebody is at it now, or not any more. */
const FOCUS = /^\u001b\[[IO]$/;
const COLOURS: Partial<Record<keyof ITheme, string>> = {
  background: '--sunken',
  foreground: '--text',
  cursor: '--accent',
  cursorAccent: '--sunken',
  selectionBackground: '--selected',
  black: '--black',
  red: '--red',
  green: '--green',
  yellow: '--yellow',
  blue: '--blue',
  magenta: '--magenta',
  cyan: '--cyan',
  white: '--white',
  brightBlack: '--bright-black',
  brightRed: '--red',
  brightGreen: '--green',
  brightYellow: '--yellow',
  brightBlue: '--blue',
  brightMagenta: '--magenta',
  brightCyan: '--cyan',
  brightWhite: '--bright-white',
};

interface Heard {
  typed: (data: Uint8Array<ArrayBuffer>) => void;
  resized: (size: Size) => void;
  /** Called for the keys that lead out of it. */
  leaves: () => void;
}

export class Emulator {
  private readonly terminal: Terminal;
  private readonly fits = new FitAddon();
  private readonly ends: (() => void)[] = [];
  private readonly wheel = new Wheel();
  private readonly encoder = new TextEncoder();
  private isAlive = true;
  /** Whether what has scrolled by may be shown, where no key would reach the shell. */
  private isBack = false;
  /** Whether what it shows is the last. */
  private isLeft = false;

  /** Draw one in a place that is on the page. */
  constructor(
    private readonly place: HTMLElement,
    { label, describedBy, isRead }: { label: string; describedBy: string; isRead: boolean },
    private readonly heard: Heard,
  ) {
    this.terminal = new Terminal({ minimumContrastRatio: CONTRAST, scrollback: 0, theme: themeOf(place), screenReaderMode: isRead });
    this.terminal.loadAddon(this.fits);
    const drawn = document.createElement('div');
    drawn.style.height = '100%';
    this.terminal.open(drawn); // not on the page yet: a style element that comes there is refused
    this.ends.push(adopt(drawn.querySelectorAll('style')));
    place.append(drawn);
    this.terminal.options = { fontFamily: FONT, fontSize: FONT_PX }; // measured where it is drawn
    const { textarea } = this.terminal;
    textarea?.setAttribute('aria-label', label);
    textarea?.setAttribute('aria-describedby', describedBy);
    this.terminal.attachCustomKeyEventHandler((event) => this.isItsKey(event));
    this.terminal.attachCustomWheelEventHandler((event) => this.rolled(event));
    this.terminal.onData((data) => this.typed(data));
    this.terminal.onBinary((data) => heard.typed(Uint8Array.from(data, (char) => char.charCodeAt(0) & 0xff)));
    this.fits.fit();
    this.terminal.onResize(() => heard.resized(this.size));
    this.ends.push(whenSized(place, () => this.fits.fit()), whenRecoloured(() => (this.terminal.options.theme = themeOf(place))));
  }

  get size(): Size {
    return { rows: this.terminal.rows, columns: this.terminal.cols };
  }

  show(data: Uint8Array): void {
    if (this.isLeft) return;
    const end = leavesAt(data);
    this.isLeft = end !== undefined;
    this.terminal.write(data.subarray(0, end));
  }

  focus(): void {
    this.terminal.focus();
  }

  /** Whether somebody is to type: else every key is the page's. */
  set alive(isAlive: boolean) {
    this.isAlive = isAlive;
    this.terminal.options.disableStdin = !isAlive;
    this.terminal.options.cursorInactiveStyle = isAlive ? 'outline' : 'none';
  }

  /** Whether what is shown is said to who listens. */
  set read(isRead: boolean) {
    this.terminal.options.screenReaderMode = isRead;
  }

  /** Forget what was shown. */
  clear(): void {
    this.terminal.reset();
    this.isBack = false;
    this.isLeft = false;
  }

  close(): void {
    for (const end of this.ends) end();
    this.terminal.dispose();
    this.place.replaceChildren();
  }

  private typed(data: string): void {
    const isBack = this.isBack && !FOCUS.test(data);
    this.heard.typed(this.encoder.encode(isBack ? SCROLL.back + data : data));
    if (isBack) this.isBack = false;
  }

  private scroll(turns: number): void {
    if (turns === 0) return;
    this.heard.typed(this.encoder.encode((turns < 0 ? SCROLL.up : SCROLL.down).repeat(Math.abs(turns))));
    this.isBack ||= turns < 0;
  }

  /** Over a terminal that nobody is at a wheel moves the page, as elsewhere. */
  private rolled(event: WheelEvent): boolean {
    if (!this.isAlive || document.activeElement !== this.terminal.textarea) return false;
    event.preventDefault();
    const line = event.deltaMode === WheelEvent.DOM_DELTA_PIXEL ? FONT_PX : 1;
    this.scroll(this.wheel.turns(event.deltaY, line));
    return false;
  }

  private isItsKey(event: KeyboardEvent): boolean {
    if (!this.isAlive) return false;
    if (isCtrl(event, 'm')) {
      event.preventDefault();
      if (event.type === 'keydown') this.heard.leaves();
      return false;
    }
    if (event.shiftKey && !event.ctrlKey && !event.altKey && (event.key === 'PageUp' || event.key === 'PageDown')) {
      event.preventDefault();
      const page = Math.max(1, Math.floor(this.terminal.rows / SCROLLED_LINES));
      if (event.type === 'keydown') this.scroll(event.key === 'PageUp' ? -page : page);
      return false;
    }
    if (isCtrl(event, 'c') && this.terminal.hasSelection()) {
      if (event.type === 'keydown') setTimeout(() => this.terminal.clearSelection()); // once the browser has copied it
      return false;
    }
    return true;
  }
}

function isCtrl(event: KeyboardEvent, key: string): boolean {
  return event.ctrlKey && !event.altKey && !event.metaKey && !event.shiftKey && event.key.toLowerCase() === key;
}

/** Have what style elements say hold, now and after each change, until it is ended. */
function adopt(elements: Iterable<HTMLStyleElement>): () => void {
  const styles = [...elements];
  const sheet = new CSSStyleSheet();
  const read = () => sheet.replaceSync(styles.map((each) => each.textContent ?? '').join('\n'));
  const looking = new MutationObserver(read);
  for (const each of styles) {
    each.remove();
    looking.observe(each, { childList: true, characterData: true, subtree: true });
  }
  read();
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
  return () => {
    looking.disconnect();
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((each) => each !== sheet);
  };
}

function themeOf(place: HTMLElement): ITheme {
  const probe = document.createElement('span');
  place.append(probe);
  const found = Object.entries(COLOURS).map(([name, token]) => {
    probe.style.color = `var(${token})`;
    return [name, getComputedStyle(probe).color];
  });
  probe.remove();
  return Object.fromEntries(found) as ITheme;
}

/** Have something done whenever a place has another size, which may be often. */
function whenSized(place: HTMLElement, act: () => void): () => void {
  let frame = 0;
  const looking = new ResizeObserver(() => {
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(act);
  });
  looking.observe(place);
  return () => {
    cancelAnimationFrame(frame);
    looking.disconnect();
  };
}

/** Have something done whenever it is light or dark now, by the system or by choice. */
function whenRecoloured(act: () => void): () => void {
  const system = matchMedia('(prefers-color-scheme: dark)');
  const looking = new MutationObserver(act);
  looking.observe(document.documentElement, { attributes: true, attributeFilter: ['data-scheme'] });
  system.addEventListener('change', act);
  return () => {
    looking.disconnect();
    system.removeEventListener('change', act);
  };
}
