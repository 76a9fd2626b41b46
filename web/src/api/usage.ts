/** What was used beside what may be, as lines that people read. */
import type { Schemas } from './client';
import { figure } from './dates';
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
    ...linesOfSpent({ spent, held, budget }, next),
  ];
}

/** What work has spent, of what it may. */
export function linesOfSpent({ spent, held, budget }: Pick<UserUsage, 'spent' | 'held' | 'budget'>, instead = ''): Line[] {
  return [
    line('Models', spent.costUsd, budget.costUsd, { as: dollars, held: held.costUsd, instead }),
    line('Tokens', spent.tokens, budget.tokens, { held: held.tokens, instead }),
    line('Rendering', spent.renderMinutes, budget.renderMinutes, { as: minutes, held: held.renderMinutes, instead }),
    line('Sandboxes', spent.sandboxMinutes, budget.sandboxMinutes, { as: minutes, held: held.sandboxMinutes, instead }),
  ];
}

/** What a part of the work spent, in words. */
export function spentWords({ costUsd = 0, tokens = 0, renderMinutes = 0, sandboxMinutes = 0 }: Partial<UserUsage['spent']>): string {
  const told = [tokens > 0 && `${whole(tokens)} tokens`, costUsd > 0 && dollars(costUsd), renderMinutes + sandboxMinutes > 0 && minutes(renderMinutes + sandboxMinutes)];
  return told.filter(Boolean).join(' · ');
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
  return figure(Math.round(value));
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

/** The month that is so many after another, each as a year and a month. */
export function monthAfter(month: string, by: number): string {
  const time = new Date(`${month}-01T00:00:00Z`);
  time.setUTCMonth(time.getUTCMonth() + by);
  return time.toISOString().slice(0, 7);
}
