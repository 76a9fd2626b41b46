/** A plan while somebody edits its scenes: as it would be with what was typed so far. */
import { createContext } from 'react';
import type { Scene } from './scenes';

/** A scene as it is typed. */
export interface Draft {
  scene: number;
  title: string;
  duration: string;
}

/** How many seconds somebody typed; NaN or nothing above 0 where that is no length. */
export function lengthOf({ duration }: Draft): number {
  return Number(duration.replace(',', '.'));
}

/** The scenes in their new order, with the lengths that they had where what is typed is none. */
export function drafted(scenes: readonly Scene[], drafts: readonly Draft[]): Scene[] {
  return drafts.flatMap((draft, at) => {
    const scene = scenes.find(({ number }) => number === draft.scene);
    const length = lengthOf(draft);
    return scene ? [{ ...scene, number: at + 1, title: draft.title, duration: length > 0 && length < Infinity ? length : scene.duration }] : [];
  });
}

/** Is told the scenes that are edited, for whoever shows the plan; undefined: none are. */
export const Drafting = createContext<(scenes: readonly Scene[] | undefined) => void>(() => {});
