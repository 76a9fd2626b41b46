// How this film looks: every colour and the type. Change a value here and all that uses it follows.
import { FONT } from './koda/fonts';

/** What is otherwise of some words than of the rest. */
export interface Wording {
  readonly color?: string;
  readonly scale?: number;
  readonly hidden?: boolean;
}

export interface Theme {
  readonly name: string;
  readonly dark: boolean;
  readonly ground: {
    readonly top: string;
    readonly bottom: string;
    readonly glow: string;
    /** What patterns are drawn with, where words have an ink of their own. */
    readonly ink?: string;
  };
  readonly ink: string;
  readonly muted: string;
  readonly accent: string;
  readonly colours: readonly string[];
  /** An ink that reads on the accent. */
  readonly markInk: string;
  /** Cards' surface, and the ink that reads on it. */
  readonly paper: string;
  readonly paperInk: string;
  /** The accent, dark enough to be read as small figures. */
  readonly priceInk: string;
  /** What shadows and edges are made of. */
  readonly shade: string;
  readonly type: {
    readonly family: string;
    readonly text: string;
    readonly weight: number;
    readonly tracking: number;
    readonly caps: boolean;
  };
  /** Colours that a playful title's letters take in turn. */
  readonly lettering: readonly string[];
  readonly heading?: Wording;
  readonly aside?: Wording;
}

export const theme: Theme = __THEME__;
