// A camera on rails: Theatre moves it, and the picture's shape decides how far back it stands.
import { useThree } from '@react-three/fiber';
import { useLayoutEffect } from 'react';
import { PerspectiveCamera } from 'three';
import { useTheatre } from '../hooks/useTheatre';
import { frame } from '../lib/frame';

interface CameraProps {
  /** Distance in world units for a wide picture. */
  readonly distance: number;
  readonly height: number;
  /** Height of the point it looks at. */
  readonly target?: number;
  readonly fov?: number;
}

export function Camera({ distance, height, target = height, fov = 30 }: CameraProps) {
  const move = useTheatre('Camera', { x: 0, y: 0, closer: 0, orbit: 0 });
  const camera = useThree((state) => state.camera);
  useLayoutEffect(() => {
    if (!(camera instanceof PerspectiveCamera)) return;
    const back = (distance / Math.min(1, Math.max(0.62, frame.aspect / 1.5))) * (1 - move.closer);
    camera.fov = fov;
    camera.near = 0.1;
    camera.far = 200;
    camera.position.set(Math.sin(move.orbit) * back + move.x, height + move.y, Math.cos(move.orbit) * back);
    camera.lookAt(0, target, 0);
    camera.updateProjectionMatrix();
  });
  return null;
}
