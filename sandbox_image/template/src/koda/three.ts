// WebGL on the page's clock: advances every react-three-fiber root by hand.
//
// Loaded with the first Canvas, so that a project without 3D does not carry three.js.
import { _roots as roots, advance, flushSync, type RootState } from '@react-three/fiber';
import { Box3, DefaultLoadingManager, Raycaster, Vector2, Vector3, type Camera, type Mesh, type Object3D } from 'three';
import { record } from './errors';
import { pending } from './pending';
import { addLooker } from './picking';
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

/** Where an object of a scene is in the window: around all of its corners, as they are drawn. */
function placeOf(object: Object3D, camera: Camera, canvas: HTMLCanvasElement): DOMRect {
  const { left, top, width, height } = canvas.getBoundingClientRect();
  const { min, max } = new Box3().setFromObject(object);
  const [xs, ys]: [number[], number[]] = [[], []];
  for (const x of [min.x, max.x])
    for (const y of [min.y, max.y])
      for (const z of [min.z, max.z]) {
        const seen = new Vector3(x, y, z).project(camera);
        xs.push(left + ((seen.x + 1) / 2) * width);
        ys.push(top + ((1 - seen.y) / 2) * height);
      }
  const [least, highest] = [Math.min(...xs), Math.min(...ys)];
  return new DOMRect(least, highest, Math.max(...xs) - least, Math.max(...ys) - highest);
}

function isSeen(object: Object3D): boolean {
  for (let each: Object3D | null = object; each; each = each.parent) if (!each.visible) return false;
  const { material } = object as Mesh;
  return [material].flat().some((each) => each && each.visible && each.opacity > 0.01);
}

addLooker((canvas, x, y) => {
  const root = roots.get(canvas);
  if (!root) return undefined;
  const { camera, scene } = root.store.getState();
  const { left, top, width, height } = canvas.getBoundingClientRect();
  const caster = new Raycaster();
  caster.setFromCamera(new Vector2(((x - left) / width) * 2 - 1, 1 - ((y - top) / height) * 2), camera);
  for (const { object } of caster.intersectObjects(scene.children, true)) {
    if (!isSeen(object)) continue;
    const place = placeOf(object, camera, canvas);
    if (place.width < width * 0.95 || place.height < height * 0.95) return { place, root: root.fiber, object, text: object.name };
  }
  return undefined;
});
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
