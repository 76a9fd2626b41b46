// Theatre's visual editor, in the live preview only: `?studio` on the dev server. Never part of a bundle (it is AGPL).
//
// The editor's playhead drives the page while it is open, and what is edited goes to src/theatre/state.json.
import editor from '@theatre/studio';
import extension from '@theatre/r3f/dist/extension';
import { followEditor } from './theatre';

const PROJECT_ID = 'koda';
const SAVE_AFTER_MS = 600;
const EDITING = ['pointerup', 'keyup', 'change', 'drop'] as const;

let timer: ReturnType<typeof setTimeout> | undefined;
let saved = '';

/** What is animated, without the revision that each export adds. */
function essence(state: Record<string, unknown>): string {
  return JSON.stringify(state['sheetsById']);
}

async function save(): Promise<void> {
  const state = editor.createContentOfSaveFile(PROJECT_ID);
  const now = essence(state);
  if (now === saved) return;
  const response = await fetch(new URL('__koda/theatre-state', document.baseURI), {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(state),
  });
  if (!response.ok) throw new Error(`the Theatre state was not saved: ${response.status} ${await response.text()}`);
  saved = now;
}

function saveSoon(): void {
  clearTimeout(timer);
  timer = setTimeout(() => void save(), SAVE_AFTER_MS);
}

/** Open the editor and save what it changes. Must run before the Theatre project is made. */
export function startEditor(): void {
  // what counts is the file in the project, not what another session left in this browser
  followEditor();
  void editor.initialize({ usePersistentStorage: false });
  editor.extend(extension);
  for (const type of EDITING) window.addEventListener(type, saveSoon, true);
  Object.assign(window, { __kodaEditor: editor });
}
