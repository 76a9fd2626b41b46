/** Small frames of a video in one picture, as `GET .../sprite.jpg` has them: ten in a row, spread evenly, in order. */

export interface Grid {
  count: number;
  columns: number;
  rows: number;
}

const COLUMNS = 10;
const MOST = 50;
/** So many a second, at most: every preview has more. */
const PER_S = 10;

/** How many are asked for of a video that lasts so many seconds, and where they lie. */
export function gridOf(duration: number): Grid {
  const count = Math.max(1, Math.min(MOST, Math.floor(duration * PER_S)));
  const columns = Math.min(count, COLUMNS);
  return { count, columns, rows: Math.ceil(count / columns) };
}

/** How a box shows the one that is at a part of the video, from 0 to 1. */
export function placeIn({ count, columns, rows }: Grid, at: number): { backgroundSize: string; backgroundPosition: string } {
  const cell = Math.min(count - 1, Math.floor(at * count));
  const across = columns > 1 ? ((cell % columns) / (columns - 1)) * 100 : 0;
  const down = rows > 1 ? (Math.floor(cell / columns) / (rows - 1)) * 100 : 0;
  return { backgroundSize: `${columns * 100}% ${rows * 100}%`, backgroundPosition: `${across}% ${down}%` };
}
