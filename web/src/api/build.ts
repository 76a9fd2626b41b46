/**
 * Which build of the page is open, and whether the server has another one by now. What is open goes on with its own: parts of it
 * that come late are kept by the server for a while. The name of the script that began the page says which it is, since it names
 * all others.
 */

export class Build {
  /** Whether the server has another one. */
  isReplaced = false;
  /** How many parts on the screen are missed and say so. */
  missed = 0;
  private readonly watchers = new Set<() => void>();

  /** `own` is the script's name, where it has one; `served` reads the page as the server has it now, where it does. */
  constructor(
    private readonly own: () => string | null | undefined,
    private readonly served: () => Promise<string | undefined>,
  ) {}

  watch = (told: () => void): (() => void) => {
    this.watchers.add(told);
    return () => this.watchers.delete(told);
  };

  /** Look, and return whether there is another one; what was known holds where the server does not say. */
  look = async (): Promise<boolean> => {
    const own = this.own();
    const served = own ? await this.served().catch(() => undefined) : undefined;
    if (own && served !== undefined) this.isReplaced = !served.includes(own);
    this.tell();
    return this.isReplaced;
  };

  /** Note that a part which is missed says so; returns what ends that. */
  miss = (): (() => void) => {
    this.missed += 1;
    this.tell();
    return () => {
      this.missed -= 1;
      this.tell();
    };
  };

  private tell(): void {
    for (const told of [...this.watchers]) told();
  }
}

const SILENT_MS = 10_000;

async function served(): Promise<string | undefined> {
  const answer = await fetch('/', { cache: 'no-cache', headers: { Accept: 'text/html' }, signal: AbortSignal.timeout(SILENT_MS) });
  return answer.ok ? answer.text() : undefined;
}

export const build = new Build(() => document.querySelector('script[type="module"][src]')?.getAttribute('src'), served);
