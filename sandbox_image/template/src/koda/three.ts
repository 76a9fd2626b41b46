// WebGL on the page's clock: advances every react-three-fiber root by hand.
//
// Loaded with the first Canvas, so that a project without 3D does not carry three.js.
import { _roots as roots, advance, flushSync, type RootState } from '@react-three/fiber';
import { DefaultLoadingManager } from 'three';
import { record } from './errors';
import { pending } from './pending';
import { addRenderer } from './player';

function states(): RootState[] {
  return [...roots.values()].map((root) => root.store.getState());
}

/** Hold the frame back while any of three's loaders loads. */
function watchLoaders(): void {
  const manager = DefaultLoadingManager;
  const { itemStart, itemEnd, itemError } = manager;
  const held = new Map<string, (() => void)[]>();
  manager.itemStart = (url) => {
    held.set(url, [...(held.get(url) ?? []), pending.hold(`file ${url.slice(0, 120)}`)]);
    itemStart(url);
  };
  manager.itemEnd = (url) => {
    itemEnd(url);
    held.get(url)?.pop()?.();
  };
  manager.itemError = (url) => {
    const foreign = new URL(url, document.baseURI).origin !== window.location.origin;
    const hint = foreign ? ': there is no network while rendering, so it has to lie under public/' : '';
    record(`the file ${url.slice(0, 200)} could not be loaded${hint}`, 'asset');
    itemError(url);
  };
}

watchLoaders();
addRenderer({
  commit: (work) => flushSync(work),
  warm() {
    for (const { gl, scene, camera } of states()) gl.compile(scene, camera);
  },
  paint(time, delta) {
    if (roots.size === 0) return;
    for (const state of states()) {
      if (state.frameloop !== 'never') state.setFrameloop('never');
      // fiber hands useFrame the difference between this and the time that it is advanced to
      state.clock.elapsedTime = time - delta;
    }
    advance(time);
  },
});
