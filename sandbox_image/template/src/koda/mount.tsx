// Mounts the app and makes the page ready: the project's timeline, React, everything loaded, shaders, two warm frames.
import { Suspense } from 'react';
import { flushSync } from 'react-dom';
import { createRoot } from 'react-dom/client';
import './fonts';
import './page.css';
import * as project from '../theatre/project';
import App from '../App';
import { openBridge, tellFailure } from './bridge';
import { connectPlayer, describeTimeline, markFailed, markReady, mode } from './contract';
import { ErrorBoundary } from './ErrorBoundary';
import { errors, record } from './errors';
import { drawAgainWhenResized, isPlaying, pause, play } from './live';
import { PageFrame } from './PageFrame';
import { pending } from './pending';
import { seek, warmUp } from './player';
import { settle, watchDocument } from './settle';
import { readTimings } from './timings';
import { adoptSheets, mainSheet } from './theatre';
import { Waiting } from './Waiting';

const READY_TIMEOUT_MS = 25_000;

async function prepare(): Promise<void> {
  const element = document.getElementById('root');
  if (!element) throw new Error('index.html has no element with the id "root"');
  watchDocument();
  await pending.holdFor('Theatre project', project.project.ready);
  flushSync(() =>
    createRoot(element).render(
      <ErrorBoundary>
        <PageFrame>
          <Suspense fallback={<Waiting name="a suspended component in App" />}>
            <App />
          </Suspense>
        </PageFrame>
      </ErrorBoundary>,
    ),
  );
  await settle();
  await warmUp();
  const first = errors[0];
  if (first) throw new Error(first.message);
}

function timeout(): Promise<never> {
  return new Promise((_resolve, reject) => {
    setTimeout(() => {
      const names = pending.names().join(', ') || 'React to finish its first render';
      reject(new Error(`the page was not ready after ${READY_TIMEOUT_MS / 1000} s; it still waits for: ${names}`));
    }, READY_TIMEOUT_MS);
  });
}

export async function mount(): Promise<void> {
  try {
    describeTimeline(readTimings(project.SEQUENCE_TIMINGS));
    adoptSheets([project.sheet]);
    connectPlayer({
      seek: (seconds) => {
        pause();
        return seek(seconds);
      },
      play,
      pause,
    });
    await Promise.race([prepare(), timeout()]);
  } catch (thrown) {
    const error = thrown instanceof Error ? thrown : new Error(String(thrown));
    record(error, 'ready');
    console.error(error);
    markFailed(error);
    if (mode === 'live') tellFailure(error.message);
    return;
  }
  markReady();
  if (mode !== 'live') return;
  play();
  drawAgainWhenResized();
  openBridge(isPlaying);
}
