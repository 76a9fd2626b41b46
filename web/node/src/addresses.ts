/**
 * Addresses that show videos and pictures to a page of another origin.
 *
 * What such a page shows by itself comes without its key, so the server is asked, with the key, for addresses that are
 * enough alone. They are good for an hour at least; each is asked for once, and again when it is old.
 */
import { Problem } from './http';

/** Where what a job made is seen: paths of the server. */
export interface MediaLinks {
  videoUrl: string;
  thumbnailUrl: string;
}

interface Kept {
  links?: MediaLinks;
  /** When it is asked for anew, by this machine's own clock. */
  staleAt: number;
  isAsked: boolean;
}

const FRESH_MS = 45 * 60_000;
const AGAIN_MS = 5_000;
const LATER_MS = 60_000;

export class Addresses {
  private readonly kept = new Map<string, Kept>();

  /** `ask` gets them, and `told` hears that there is something new to show of a session. */
  constructor(
    private readonly ask: (sessionId: string, jobId: string) => Promise<MediaLinks>,
    private readonly told: (sessionId: string) => void,
    private readonly now: () => number = Date.now,
  ) {}

  /** Where something is seen; undefined until the server has said so, and then `told` hears of it. */
  of(sessionId: string, jobId: string): MediaLinks | undefined {
    const one = this.hold(sessionId, jobId);
    if (!one.isAsked && one.staleAt <= this.now()) void this.get(sessionId, jobId, one);
    return one.links;
  }

  /** Where something is seen for a good while yet: what is old is asked for anew first. */
  async fresh(sessionId: string, jobId: string): Promise<MediaLinks> {
    const one = this.hold(sessionId, jobId);
    if (one.links && one.staleAt > this.now()) return one.links;
    const links = await this.ask(sessionId, jobId);
    Object.assign(one, { links, staleAt: this.now() + FRESH_MS });
    return links;
  }

  /** Whether an address that does not show anything any more was an old one, in whose place another is asked for. */
  renew(sessionId: string, jobId: string): boolean {
    const one = this.hold(sessionId, jobId);
    if (one.links === undefined || one.staleAt > this.now()) return one.isAsked;
    delete one.links;
    this.of(sessionId, jobId);
    return true;
  }

  private hold(sessionId: string, jobId: string): Kept {
    const place = `${sessionId} ${jobId}`;
    const one = this.kept.get(place) ?? { staleAt: -Infinity, isAsked: false };
    this.kept.set(place, one);
    return one;
  }

  private async get(sessionId: string, jobId: string, one: Kept): Promise<void> {
    one.isAsked = true;
    try {
      one.links = await this.ask(sessionId, jobId);
      one.staleAt = this.now() + FRESH_MS;
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      const isPassing = error.status === 0 || error.status === 429 || error.status >= 500;
      const pause = isPassing ? AGAIN_MS : LATER_MS;
      one.staleAt = this.now() + pause;
      setTimeout(() => this.told(sessionId), pause); // whoever shows it by then asks again
    } finally {
      one.isAsked = false;
    }
    if (one.links) this.told(sessionId);
  }
}
