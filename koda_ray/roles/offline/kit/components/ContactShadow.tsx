// The shadow of something above the floor: small and dark near it, wide and faint far from it.
import { useMemo } from 'react';
import { CanvasTexture } from 'three';
import { theme } from '../theme';

interface ContactShadowProps {
  readonly x: number;
  readonly z?: number;
  /** Height of the thing's lowest point above the floor, in world units. */
  readonly height: number;
  readonly radius: number;
  readonly strength?: number;
}

function softDisc(): CanvasTexture {
  const size = 128;
  const canvas = document.createElement('canvas');
  canvas.width = canvas.height = size;
  const pen = canvas.getContext('2d');
  if (pen) {
    const gradient = pen.createRadialGradient(size / 2, size / 2, 0, size / 2, size / 2, size / 2);
    for (const [stop, opacity] of [[0, 1], [0.25, 0.82], [0.5, 0.42], [0.75, 0.12], [1, 0]] as const)
      gradient.addColorStop(stop, `rgba(255, 255, 255, ${opacity})`);
    pen.fillStyle = gradient;
    pen.fillRect(0, 0, size, size);
  }
  return new CanvasTexture(canvas);
}

export function ContactShadow({ x, z = 0, height, radius, strength = 0.55 }: ContactShadowProps) {
  const disc = useMemo(softDisc, []);
  const lift = height / (radius * 5);
  const spread = radius * (1.25 + lift * 1.1);
  return (
    <mesh position={[x, 0.004, z]} rotation={[-Math.PI / 2, 0, 0]} scale={[spread * 2, spread * 1.7, 1]}>
      <planeGeometry />
      <meshBasicMaterial
        map={disc}
        color={theme.shade}
        transparent
        depthWrite={false}
        toneMapped={false}
        opacity={strength / (1 + lift * 2.6)}
      />
    </mesh>
  );
}
