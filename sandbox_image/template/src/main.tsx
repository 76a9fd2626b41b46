// Starts the page. The contract comes first; the app is imported after it, so that what fails in there is reported.
import './koda/boot';
import { markFailed } from './koda/contract';
import { record } from './koda/errors';

// The live preview is shown in an opaque origin, which has no shared workers. Vite's client asks from one whether a server
// that went away is there again, unless the browser knows none: then it asks from the page.
if (import.meta.hot && window.origin === 'null') Reflect.deleteProperty(window, 'SharedWorker');

async function start(): Promise<void> {
  if (import.meta.env.DEV && new URLSearchParams(window.location.search).has('studio')) {
    const { startEditor } = await import('./koda/editor');
    startEditor();
  }
  const { mount } = await import('./koda/mount');
  await mount();
}

start().catch((thrown: unknown) => {
  record(thrown, 'ready');
  console.error(thrown);
  markFailed(thrown instanceof Error ? thrown : new Error(String(thrown)));
});
