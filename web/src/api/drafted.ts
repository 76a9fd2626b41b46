/** A plan while somebody edits its scenes: as it would be with what was typed so far. */
import { createContext } from 'react';
import type { Scene } from './scenes';

/** A scene as it is typed. */
export interface Draft {
  scene: number;
  title: string;
  duration: string;
  description: string;
}

/** A scene as it stands, to be typed over. */
export function draftOf({ number, title, duration, description }: Scene): Draft {
  return { scene: number, title, duration: String(Number(duration.toFixed(2))), description };
}

/** What was typed before, with what it does not have yet as the plan has it. */
export function goneOn(scenes: readonly Scene[], before: readonly (Partial<Draft> & Pick<Draft, 'scene'>)[]): Draft[] {
  return before.flatMap((typed) => {
    const scene = scenes.find(({ number }) => number === typed.scene);
    return scene ? [{ ...draftOf(scene), ...typed }] : [];
  });
}

/** How many seconds somebody typed; NaN or nothing above 0 where that is no length. */
export function lengthOf({ duration }: Pick<Draft, 'duration'>): number {
  return Number(duration.replace(',', '.'));
}

/** The scenes in their new order, with the lengths that they had where what is typed is none. */
export function drafted(scenes: readonly Scene[], drafts: readonly Draft[]): Scene[] {
  return drafts.flatMap((draft, at) => {
    const scene = scenes.find(({ number }) => number === draft.scene);
    const length = lengthOf(draft);
    return scene ? [{ ...scene, number: at + 1, title: draft.title, duration: length > 0 && length < Infinity ? length : scene.duration, description: draft.description }] : [];
  });
}

/** Is told the scenes that are edited, for whoever shows the plan; undefined: none are. */
export const Drafting = createContext<(scenes: readonly Scene[] | undefined) => void>(() => {});
