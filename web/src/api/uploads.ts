/**
 * Files on their way to the server: two at a time, each with how far it is and what became of it.
 *
 * A request of `XMLHttpRequest`, since `fetch` does not tell how much has been sent.
 */
import { Problem, type Schemas } from './client';

type Asset = Schemas['AssetView'];

export interface Upload {
  readonly key: number;
  readonly name: string;
  readonly size: number;
  /** Of it that is sent, 0 to 1. */
  readonly sent: number;
  readonly state: 'waits' | 'goes' | 'refused';
  /** Why it was not taken. */
  readonly said?: string;
}

type Send = (file: File, told: (sent: number) => void, signal: AbortSignal) => Promise<Asset>;

const AT_ONCE = 2;

export class Uploads {
  list: readonly Upload[] = [];
  private readonly held = new Map<number, { file: File; stop: AbortController }>();
  private readonly watchers = new Set<() => void>();
  private next = 1;

  constructor(
    private readonly stored: (asset: Asset) => void,
    private readonly send: Send = sendFile,
  ) {}

  watch = (told: () => void): (() => void) => {
    this.watchers.add(told);
    return () => this.watchers.delete(told);
  };

  add(files: Iterable<File>): void {
    for (const file of files) {
      const key = this.next++;
      this.held.set(key, { file, stop: new AbortController() });
      this.say([...this.list, { key, name: file.name, size: file.size, sent: 0, state: 'waits' }]);
    }
    this.go();
  }

  /** Send one again that was not taken. */
  again(key: number): void {
    const held = this.held.get(key);
    if (!held || this.list.find((each) => each.key === key)?.state !== 'refused') return;
    held.stop = new AbortController();
    this.put(key, { state: 'waits', sent: 0, said: undefined });
    this.go();
  }

  /** Stop one, or forget it. */
  drop(key: number): void {
    this.held.get(key)?.stop.abort();
    this.held.delete(key);
    this.say(this.list.filter((each) => each.key !== key));
    this.go();
  }

  close(): void {
    for (const { key } of this.list) this.drop(key);
  }

  private go(): void {
    const room = AT_ONCE - this.list.filter(({ state }) => state === 'goes').length;
    for (const { key } of this.list.filter(({ state }) => state === 'waits').slice(0, Math.max(0, room))) void this.one(key);
  }

  private async one(key: number): Promise<void> {
    const held = this.held.get(key);
    if (!held) return;
    const { signal } = held.stop;
    this.put(key, { state: 'goes' });
    try {
      const asset = await this.send(held.file, (sent) => signal.aborted || this.put(key, { sent }), signal);
      if (signal.aborted) return;
      this.stored(asset);
      this.drop(key);
    } catch (error) {
      if (signal.aborted) return;
      this.put(key, { state: 'refused', said: error instanceof Error ? error.message : String(error) });
      this.go();
    }
  }

  private put(key: number, found: { [K in keyof Upload]?: Upload[K] | undefined }): void {
    this.say(this.list.map((each) => (each.key === key ? ({ ...each, ...found } as Upload) : each)));
  }

  private say(list: readonly Upload[]): void {
    this.list = list;
    for (const told of this.watchers) told();
  }
}

/** The files that somebody drops or pastes; none where it is something else. */
export function filesOf(given: Pick<DataTransfer, 'files' | 'types'> | null): File[] {
  return given?.types.includes('Files') ? [...given.files] : [];
}

export function sendFile(file: File, told: (sent: number) => void, signal: AbortSignal): Promise<Asset> {
  return new Promise((done, fail) => {
    const request = new XMLHttpRequest();
    const body = new FormData();
    body.append('file', file);
    request.open('POST', '/v1/assets');
    request.responseType = 'json';
    request.upload.onprogress = ({ loaded, total }) => told(total ? loaded / total : 0);
    request.onload = () => {
      const answer = request.response as (Asset & Partial<Schemas['Problem']>) | null;
      if (request.status < 300 && answer) return done(answer);
      fail(new Problem(request.status, answer?.code ?? `HTTP_${request.status}`, answer?.detail ?? request.statusText));
    };
    request.onerror = () => fail(new Problem(0, 'UNREACHABLE', 'The server does not answer. Send it again in a moment.'));
    signal.addEventListener('abort', () => request.abort());
    request.send(body);
  });
}
