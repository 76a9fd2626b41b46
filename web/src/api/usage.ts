/** What was used beside what may be, as lines that people read. */
import type { Schemas } from './client';
import { bytes } from './words';

type UserUsage = Schemas['UserUsage'];

export interface Line {
  name: string;
  /** Of the limit, 0 to 1 and beyond; undefined where there is none. */
  share: number | undefined;
  words: string;
  /** What is held for work under way, beside what was used. */
  held: string;
  /** What there is to do once it is nearly used up. */
  instead: string;
}

/** From this share of a limit on somebody is warned, where a budget does not say another one. */
const NEAR = 0.8;

export function linesOf({ spent, held, budget, ...usage }: UserUsage): Line[] {
  const next = 'More is possible next month, or once whoever runs this server allows it.';
  return [
    line('Animations awake', usage.awake, usage.mostAwake, { instead: 'They fall asleep by themselves when nobody uses them.' }),
    line('Animations in all', usage.sessions, usage.mostSessions, { instead: 'Delete some that you do not need.' }),
    line('Stored', usage.storedBytes, usage.mostStoredBytes, { as: stored, instead: 'Delete animations, renders or files that you do not need.' }),
    line('Models', spent.costUsd, budget.costUsd, { as: dollars, held: held.costUsd, instead: next }),
    line('Tokens', spent.tokens, budget.tokens, { held: held.tokens, instead: next }),
    line('Rendering', spent.renderMinutes, budget.renderMinutes, { as: minutes, held: held.renderMinutes, instead: next }),
    line('Sandboxes', spent.sandboxMinutes, budget.sandboxMinutes, { as: minutes, held: held.sandboxMinutes, instead: next }),
  ];
}

/** Of which a person is to know that there is not much left. */
export function isNear({ share }: Line, warnAt: number | null | undefined): boolean {
  return share !== undefined && share >= (warnAt ?? NEAR);
}

interface How {
  as?: (value: number) => string;
  held?: number | undefined;
  instead: string;
}

function line(name: string, used: number | undefined, most: number | null | undefined, { as = whole, held = 0, instead }: How): Line {
  const value = used ?? 0;
  const isLimited = most !== null && most !== undefined;
  return {
    name,
    share: isLimited ? (most > 0 ? (value + held) / most : 1) : undefined,
    words: isLimited ? `${as(value)} of ${as(most)}` : as(value),
    held: held > 0 ? as(held) : '',
    instead,
  };
}

function whole(value: number): string {
  return Math.round(value).toLocaleString('en-GB');
}

function stored(value: number): string {
  return value === 0 ? 'nothing' : bytes(value);
}

function dollars(value: number): string {
  return `$${value.toFixed(value > 0 && value < 0.1 ? 4 : 2)}`;
}

function minutes(value: number): string {
  return `${Number(value.toFixed(1))} min`;
}
