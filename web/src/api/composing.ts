/**
 * What is to be made, and was not sent yet: words, how it should be, and the files that go with it.
 *
 * It is the page's and not the screen's where it is typed: whoever looks at something else meanwhile finds all of it again,
 * and a file that was on its way there.
 */
import { useSyncExternalStore } from 'react';
import { Attempt, type Sent } from './attempt';
import { ask, type Problem } from './client';
import { keep, keyOf, readKept } from './kept';
import { atChange, whose } from './owner';
import { budgetOf, type Permissions, type Rule, type Typed } from './this-session';
import { numberOf } from './typed';
import { type Upload, uploads, type Uploads } from './uploads';

export interface Asked {
  prompt: string;
  duration: string;
  aspect: string;
  fps: string;
  takes: string;
  style: string;
  /** The project that it lies in; empty: one's own. */
  project: string;
  /** What agents may do by themselves; empty as usual. */
  mode: Permissions['mode'] | '';
  /** What else holds for them. */
  rules: readonly Rule[];
  budget: Typed;
}

export interface Attached {
  /** Of its upload, where it has one. */
  key: number;
  name: string;
  /** Once it is stored. */
  id?: string;
  /** Whether it was there before, and stays when it is taken out here. */
  stays?: boolean;
}

/** What of it outlives a reload: what is on its way only then does not. */
interface Kept extends Asked {
  files: readonly Omit<Attached, 'key'>[];
  sent: Sent;
}

/** Where one composes. */
const AT = '/';
const NOTHING: Asked = { prompt: '', duration: '', aspect: '', fps: '', takes: '', style: '', project: '', mode: '', rules: [], budget: {} };
const NOTHING_KEPT: Kept = { ...NOTHING, files: [], sent: { asked: '', key: '' } };

export class Composing {
  asked = NOTHING;
  files: readonly Attached[] = [];
  /** Why it was not begun, until it is sent again or another is typed. */
  problem: Problem | undefined;
  /** Whether somebody was elsewhere when that was said, and has not seen it yet. */
  isUntold = false;
  seen = this.look();
  private readonly attempt = new Attempt();
  /** Files that were refused when it was sent: it goes without them. */
  private without: readonly number[] = [];
  private named = 0;
  private readonly watchers = new Set<() => void>();

  constructor(
    private readonly uploads: Uploads,
    private readonly remove: (assetId: string) => void,
    private readonly kept = { read: () => NOTHING_KEPT, put: (_: Kept) => {} },
  ) {}

  /** Go on with what there was before the page was loaded, where nothing was done since. */
  restore(): void {
    if (this.asked !== NOTHING || this.files.length > 0) return;
    const { files, sent, ...asked } = { ...NOTHING_KEPT, ...this.kept.read() };
    this.asked = asked;
    this.attempt.restore(sent);
    this.show(files.map((each) => ({ ...each, key: (this.named -= 1) })));
  }

  watch = (told: () => void): (() => void) => {
    this.watchers.add(told);
    return () => this.watchers.delete(told);
  };

  put(what: Partial<Asked>): void {
    const isAnother = what.prompt !== undefined && what.prompt !== this.asked.prompt;
    this.asked = { ...this.asked, ...what };
    this.keep();
    const isOfOthers = this.problem?.fields.some(({ field }) => field !== 'prompt');
    if (isAnother && !isOfOthers) this.say(undefined); // what was said is of the one before
    else this.show();
  }

  /** Store files, to go with it. */
  attach(files: Iterable<File>): void {
    for (const file of files) {
      const stored = (key: number, id: string) => this.set(this.files.map((each) => (each.key === key ? { ...each, id } : each)));
      const [key = 0] = this.uploads.add([file], { at: AT }, ({ id }) => stored(key, id));
      this.set([...this.files, { key, name: file.name }]);
    }
  }

  /** Have something go with it that is stored already. */
  name({ id, name }: { id: string; name: string }): void {
    if (!this.files.some((each) => each.id === id)) this.set([...this.files, { key: (this.named -= 1), name, id, stays: true }]);
  }

  drop({ key, id, stays }: Attached): void {
    this.set(this.files.filter((each) => each.key !== key));
    if (!id) this.uploads.drop(key);
    else if (!stays) this.remove(id);
  }

  /** A file was deleted elsewhere. */
  lost(assetId: string): void {
    this.restore();
    this.set(this.files.filter(({ id }) => id !== assetId));
  }

  /** The body of the request that makes it. */
  get body() {
    const { prompt, duration, aspect, fps, takes, style, project, mode, rules, budget } = this.asked;
    const limits = budgetOf(budget);
    const more = {
      ...(style.trim() ? { style: style.trim() } : {}),
      ...(project.trim() ? { projectId: project.trim() } : {}),
      ...(mode || rules.length > 0 ? { permissions: { ...(mode ? { mode } : {}), ...(rules.length > 0 ? { rules } : {}) } } : {}),
      ...(Object.keys(limits).length > 0 ? { budget: limits } : {}),
    };
    const options = { ...(duration ? { duration: numberOf(duration) } : {}), ...(aspect ? { aspect } : {}), ...(fps ? { fps: numberOf(fps) } : {}) };
    return { prompt, options, assetIds: this.files.flatMap(({ id }) => id ?? []), ...(takes ? { takes: Number(takes) } : {}), ...more };
  }

  /** The key of the request that makes it, which is about to be sent. */
  keyOf(body: Composing['body']): string {
    const key = this.attempt.keyOf(body);
    this.without = this.files.filter(({ key, id }) => id === undefined && this.isRefused(key)).map(({ key }) => key);
    this.keep();
    this.say(undefined);
    return key;
  }

  /** Tell who sent it of a problem with it, wherever they are by then; to anybody else it says nothing. */
  failed(problem: Problem, { isElsewhere = false, sender = whose() } = {}): void {
    if (sender !== whose()) return;
    this.attempt.ended(problem);
    this.keep();
    this.say(problem, isElsewhere);
  }

  /** Somebody knows why it was not begun. */
  told(): void {
    if (this.isUntold) this.say(this.problem);
  }

  /** It was made: what went along is another's now, and what was typed or brought since stays. */
  made({ assetIds, ...sent }: Composing['body']): void {
    this.attempt.ended();
    const { assetIds: _, ...now } = this.body;
    if (JSON.stringify(now) === JSON.stringify(sent)) this.asked = NOTHING;
    const left = this.without.filter((key) => this.isRefused(key));
    for (const key of left) this.uploads.drop(key);
    this.set(this.files.filter(({ key, id }) => !left.includes(key) && !(id !== undefined && assetIds.includes(id))));
  }

  /** It is another person's page, who goes on with what was theirs; what is kept of this one stays. */
  change(): void {
    for (const { key, id } of this.files) if (id === undefined) this.uploads.drop(key);
    this.attempt.ended();
    this.asked = NOTHING;
    this.files = [];
    this.problem = undefined;
    this.isUntold = false;
    this.restore();
  }

  private isRefused(key: number): boolean {
    return this.uploads.list.find((each) => each.key === key)?.state === 'refused';
  }

  private set(files: readonly Attached[]): void {
    this.files = files;
    this.keep();
    this.show();
  }

  private keep(): void {
    const files = this.files.flatMap(({ key: _, ...file }) => (file.id === undefined ? [] : file));
    this.kept.put({ ...this.asked, files, sent: this.attempt.sent });
  }

  private say(problem: Problem | undefined, isUntold = false): void {
    this.problem = problem;
    this.isUntold = isUntold;
    this.show();
  }

  private look() {
    return { ...this.asked, files: this.files, problem: this.problem, isUntold: this.isUntold };
  }

  private show(files = this.files): void {
    this.files = files;
    this.seen = this.look();
    for (const told of [...this.watchers]) told();
  }
}

/** Whether a file is on its way; one that was refused is not. */
export function isOnItsWay({ key, id }: Attached, list: readonly Upload[]): boolean {
  return id === undefined && list.find((each) => each.key === key)?.state !== 'refused';
}

export const composing = new Composing(
  uploads,
  (id) => {
    ask(`/v1/assets/${id}`, { method: 'DELETE' }).catch(() => undefined); // it takes room, and nothing else
  },
  { read: () => readKept(keyOf(AT, 'asked'), NOTHING_KEPT), put: (kept) => keep(keyOf(AT, 'asked'), kept, NOTHING_KEPT) },
);
atChange(() => composing.change());

export function useComposing() {
  return useSyncExternalStore(composing.watch, () => composing.seen);
}
