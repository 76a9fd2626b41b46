// The shadow under something that hangs over the ground: wider and fainter the higher it is.
import { useMemo } from 'react';
import { CanvasTexture } from 'three';
import { clamp } from '../utils/easing';

interface SoftShadowProps {
  x: number;
  /** Where the ground is, in scene units. */
  ground: number;
  /** How far the thing is above it, in scene units. */
  height: number;
  radius: number;
  color?: string;
}

function radialFade(): CanvasTexture {
  const canvas = document.createElement('canvas');
  canvas.width = canvas.height = 256;
  const context = canvas.getContext('2d');
  if (!context) throw new Error('this browser gives no 2D canvas');
  const fade = context.createRadialGradient(128, 128, 0, 128, 128, 128);
  for (let i = 0; i <= 16; i++) fade.addColorStop(i / 16, `rgba(255,255,255,${Math.exp(-((i / 6.5) ** 2)).toFixed(4)})`);
  fade.addColorStop(1, 'rgba(255,255,255,0)');
  context.fillStyle = fade;
  context.fillRect(0, 0, 256, 256);
  return new CanvasTexture(canvas);
}

export function SoftShadow({ x, ground, height, radius, color = '#4a1236' }: SoftShadowProps) {
  const texture = useMemo(radialFade, []);
  const far = clamp(height / 3);
  return (
    <mesh position={[x, ground, -0.2]} scale={[radius * (3.6 + 3.5 * far), radius * (0.8 + 0.5 * far), 1]}>
      <planeGeometry />
      <meshBasicMaterial map={texture} color={color} transparent opacity={0.75 * (1 - far) ** 2} depthWrite={false} toneMapped={false} />
    </mesh>
  );
}
