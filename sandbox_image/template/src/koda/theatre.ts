// Theatre on the page's clock: a raf driver that only the page ticks, and sheets whose playhead only the page moves.
import { createRafDriver, type IRafDriver, type ISheet } from '@theatre/core';

/** Pass it wherever Theatre takes a driver (`onChange(pointer, callback, rafDriver)`), so that it follows the clock. */
export const rafDriver: IRafDriver = createRafDriver({ name: 'koda' });

let sheets: readonly ISheet[] = [];

export function adoptSheets(next: readonly ISheet[]): void {
  sheets = next;
}

/** The sheet that src/theatre/project.ts exports. */
export function mainSheet(): ISheet {
  const sheet = sheets[0];
  if (!sheet) throw new Error('src/theatre/project.ts must export `sheet`, made by getProject(...).sheet("Main")');
  return sheet;
}

let editorLeads = false;

/** Let the editor's playhead lead: the page follows it instead of moving it. */
export function followEditor(): void {
  editorLeads = true;
}

/** Where the editor's playhead is, in seconds, or undefined where the page leads. */
export function editorTime(): number | undefined {
  return editorLeads ? mainSheet().sequence.position : undefined;
}

/** Move every sheet's playhead; a sheet that is shorter stays on its last frame. */
export function moveSheets(seconds: number): void {
  if (editorLeads) return;
  for (const sheet of sheets) sheet.sequence.position = seconds;
}

/** Let Theatre tell its listeners what changed. */
export function tickTheatre(seconds: number): void {
  rafDriver.tick(seconds * 1000);
}
