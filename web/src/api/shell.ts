/**
 * A shell in a sandbox that somebody types into: a process of its own there, whose terminal comes over a WebSocket. It ends when it is
 * left; what a browser cannot say any more, its server sees.
 */
import { ask, Problem } from './client';
import { addressOf, type Process } from './sandboxes';

/** How a shell stands for who types into it. */
export type Standing =
  | { is: 'beginning' | 'open' | 'gone' }
  /** It has ended by itself. */
  | { is: 'ended'; code: number | null }
  /** Nobody is connected to it, and it is still there as far as is known. */
  | { is: 'lost'; problem?: Problem }
  /** There is none, and none can begin. */
  | { is: 'refused'; problem: Problem };

export interface Size {
  rows: number;
  columns: number;
}

/** How long a shell waits for somebody who was cut off, in seconds. */
export const WAITS_S = 120;

/** What is typed to see what has scrolled by, a few lines at a time, and to be back at the shell: keys that no keyboard has. */
export const SCROLL = { up: '\u001b[5001~', down: '\u001b[5002~', back: '\u001b[5003~' } as const;
export const SCROLLED_LINES = 3;

// how tmux leaves a terminal: it clears it, and turns back to what was there before. Source: terminfo's clear and rmcup of xterm
const CLEAR = '\u001b[H\u001b[2J';
const BACK = '\u001b[?1049l';
const latin = new TextDecoder('latin1');

/** Where in what is to be shown tmux leaves the terminal, which from there on is to stay as it is; nothing where it does not. */
export function leavesAt(data: Uint8Array): number | undefined {
  const text = latin.decode(data);
  const back = text.indexOf(BACK);
  if (back < 0) return undefined;
  const clear = text.lastIndexOf(CLEAR, back);
  return clear < 0 ? back : clear;
}

/** What a wheel comes to, in turns of a few lines; what is left over counts with what comes next. */
export class Wheel {
  private left = 0;

  turns(moved: number, line: number): number {
    if (moved * this.left < 0) this.left = 0; // it goes the other way now
    this.left += moved / (line * SCROLLED_LINES);
    const whole = Math.trunc(this.left) || 0; // not a negative one
    this.left -= whole;
    return whole;
  }
}

const key = (at: number, what: string) => `set -s 'user-keys[${at}]' "\${e}${what.slice(1)}"`;
const scroll = (where: 'up' | 'down') => `send -X -N ${SCROLLED_LINES} scroll-${where}`;
const inFull = (where: 'Up' | 'Down', otherwise: string) => `if -F '#{alternate_on}' 'send -N ${SCROLLED_LINES} ${where}' ${otherwise}`;

/** Lines and keys are the shell's, and none tmux's own; what has scrolled by it keeps and shows. */
const TMUX = [
  'tmux set status off',
  'set prefix None',
  'set -w mode-keys emacs',
  key(0, SCROLL.up),
  key(1, SCROLL.down),
  key(2, SCROLL.back),
  `bind -n User0 ${inFull('Up', `'copy-mode -e ; ${scroll('up')}'`)}`,
  `bind -n User1 ${inFull('Down', '')}`,
  "bind -n User2 if -F 0 ''",
  `bind -T copy-mode User0 ${scroll('up')}`,
  `bind -T copy-mode User1 ${scroll('down')}`,
  'bind -T copy-mode User2 send -X cancel',
].join(' \\; ');

/**
 * The best shell there is, once somebody is at its terminal: until then nothing is drawn, and where nobody comes it ends. The first word
 * is for who reads a list of processes. Once the shell has ended, whoever is there leaves: tmux sometimes misses that it has.
 */
export const COMMAND = [
  ': "a terminal on the page"',
  "e=$(printf '\\033')",
  `${TMUX} 2>/dev/null`,
  'tmux set -w remain-on-exit-format "" 2>/dev/null',
  'turn=0; until [ "$(tmux display-message -p "#{session_attached}")" != 0 ]; do turn=$((turn + 1)); [ $turn -lt 150 ] || exit 1; sleep 0.1; done',
  'if command -v bash >/dev/null; then bash; else sh; fi',
  'code=$?; tmux run-shell -b -d 0.5 "tmux detach-client -s \'=$(tmux display-message -p "#{session_name}")\' 2>/dev/null || :"; exit $code',
].join('; ');

/** A process's name that no other terminal's has. */
export function newName(): string {
  return `terminal-${Array.from(crypto.getRandomValues(new Uint8Array(4)), (byte) => (byte % 36).toString(36)).join('')}`;
}

/** Where the terminal of a process is, seen from a page. */
export function socketOf(page: string, boxId: string, name: string, { rows, columns }: Size): string {
  const address = new URL(`${addressOf(boxId, 'processes', encodeURIComponent(name), 'terminal')}?rows=${rows}&columns=${columns}&unusedS=${WAITS_S}`, page);
  address.protocol = address.protocol === 'https:' ? 'wss:' : 'ws:';
  return address.href;
}

/** What it means that a connection has ended, by how its process stands since. */
export function standingOf(found: Process | Problem): Standing {
  if (found instanceof Problem) {
    if (found.status !== 404) return { is: 'lost', problem: found };
    return found.code === 'NOT_FOUND' ? { is: 'gone' } : { is: 'refused', problem: found };
  }
  return found.state === 'running' ? { is: 'lost' } : { is: 'ended', code: found.exitCode ?? null };
}

/** How it stands, in words; nothing where there is nothing to say. */
export function shellWords(standing: Standing): string {
  switch (standing.is) {
    case 'beginning':
      return 'Starting a shell…';
    case 'ended':
      return standing.code === null ? 'The shell has ended.' : `The shell has ended with ${standing.code}.`;
    case 'gone':
      return 'The shell was ended.';
    case 'lost':
      return 'The connection is lost. The shell waits two minutes for you.';
    default:
      return '';
  }
}

interface Ways {
  page: string;
  ask: typeof ask;
  connect: (address: string) => WebSocket;
  /** Have a process ended, also as a page goes. */
  end: (address: string) => Promise<unknown>;
}

const WAYS: Ways = {
  page: globalThis.location?.href ?? '',
  ask,
  connect: (address) => new WebSocket(address),
  end: (address) => fetch(address, { method: 'DELETE', keepalive: true, credentials: 'same-origin' }),
};

interface Told {
  /** Called with what the terminal is to show. */
  shows: (data: Uint8Array) => void;
  stands: (standing: Standing) => void;
  /** Called once a list of what runs in the sandbox is another one. */
  lists: () => void;
}

export class Shell {
  private readonly name = newName();
  private socket: WebSocket | undefined;
  private waiting: Uint8Array<ArrayBuffer>[] = [];
  private isLeft = false;

  constructor(
    private readonly boxId: string,
    private size: Size,
    private readonly told: Told,
    private readonly ways: Ways = WAYS,
  ) {}

  /** Start it, and connect to it. */
  async begin(): Promise<void> {
    this.told.stands({ is: 'beginning' });
    try {
      await this.ways.ask(addressOf(this.boxId, 'processes'), { method: 'POST', body: { name: this.name, command: COMMAND } });
    } catch (problem) {
      if (!(problem instanceof Problem)) throw problem;
      if (!this.isLeft) this.told.stands({ is: 'refused', problem });
      return;
    }
    if (this.isLeft) await this.end();
    else this.connect();
  }

  /** Connect to it, also again. */
  connect(): void {
    this.told.stands({ is: 'beginning' });
    const socket = this.ways.connect(socketOf(this.ways.page, this.boxId, this.name, this.size));
    const { rows, columns } = this.size;
    this.socket = socket;
    socket.binaryType = 'arraybuffer';
    socket.onopen = () => {
      if (rows !== this.size.rows || columns !== this.size.columns) this.tellSize(); // it changed meanwhile
      for (const data of this.waiting.splice(0)) socket.send(data);
      this.told.stands({ is: 'open' });
      this.told.lists();
    };
    socket.onmessage = ({ data }: MessageEvent<unknown>) => {
      if (data instanceof ArrayBuffer) this.told.shows(new Uint8Array(data));
    };
    socket.onclose = () => void this.closed(socket);
  }

  /** Send what is typed, once it is open. */
  type(data: Uint8Array<ArrayBuffer>): void {
    if (this.isOpen) this.socket?.send(data);
    else this.waiting.push(data);
  }

  resize(size: Size): void {
    this.size = size;
    if (this.isOpen) this.tellSize();
  }

  /** Take a connection for lost that nobody has said good-bye to, as where there is no network any more. */
  hangUp(): void {
    this.socket?.close();
  }

  /** Leave it, which ends it; may be called twice. */
  leave = (): Promise<void> => {
    if (this.isLeft) return Promise.resolve();
    this.isLeft = true;
    this.socket?.close();
    return this.end();
  };

  private get isOpen(): boolean {
    return this.socket?.readyState === 1;
  }

  private tellSize(): void {
    this.socket?.send(JSON.stringify(this.size));
  }

  private async closed(socket: WebSocket): Promise<void> {
    if (this.isLeft || socket !== this.socket) return;
    const asking = this.ways.ask<Process>(addressOf(this.boxId, 'processes', this.name));
    const found = await asking.catch((problem: unknown) => (problem instanceof Problem ? problem : new Problem(0, 'UNREACHABLE', String(problem))));
    if (this.isLeft || socket !== this.socket) return;
    const standing = standingOf(found);
    this.waiting = [];
    this.told.stands(standing);
    if (standing.is === 'ended') await this.end(); // its code is known, and nothing else of it is asked for
    this.told.lists();
  }

  private async end(): Promise<void> {
    try {
      await this.ways.end(addressOf(this.boxId, 'processes', this.name));
    } catch {
      // where nobody answers, the server ends by itself what nobody comes back to
    }
  }
}
