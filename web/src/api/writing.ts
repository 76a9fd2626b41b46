/** The code that agents are writing, put together from the pieces in which it is told (`code_chunk`). */

export interface Piece {
  path: string;
  /** Where it belongs in its file, in characters. */
  offset: number;
  delta: string;
}

/** So much of a file is shown, of its end. */
const MOST_CHARS = 20_000;
const LEFT_OUT = '…\n';

/** The file that a piece came for last, as far as it is known. */
export class Writing {
  path = '';
  text = '';
  private ends = 0;

  take({ path, offset, delta }: Piece): void {
    const goesOn = path === this.path && offset === this.ends;
    const before = goesOn ? this.text : offset > 0 ? LEFT_OUT : '';
    const text = before + delta;
    this.path = path;
    this.text = text.length > MOST_CHARS ? LEFT_OUT + text.slice(-MOST_CHARS / 2) : text;
    this.ends = offset + [...delta].length; // as the server counts: what is two of JavaScript's characters is one
  }
}

/** Read what the server said; undefined for what is no piece of a file. */
export function pieceOf(data: string): Piece | undefined {
  const { type, data: said } = JSON.parse(data) as { type?: string; data?: Partial<Piece> | null };
  const { path, offset, delta } = said ?? {};
  if (type !== 'code_chunk' || typeof path !== 'string' || typeof offset !== 'number' || typeof delta !== 'string') return undefined;
  return { path, offset, delta };
}
