// A star and the bodies around it. Theatre turns each body's `angle` and brings it in; inner ones are faster.
import { useMemo } from 'react';
import { BufferGeometry, CanvasTexture, DoubleSide, SRGBColorSpace, Vector3 } from 'three';
import { useTheatre } from '../hooks/useTheatre';
import { darken, fade, lighten } from '../lib/colour';
import { theme } from '../theme';
import { random } from '../utils/easing';

export interface BodyProps {
  /** The Theatre object that moves it. */
  readonly name: string;
  readonly color: string;
  readonly size: number;
  /** Radius of its path in world units. */
  readonly path: number;
  readonly look: 'bands' | 'craters' | 'plain';
  readonly ring?: boolean;
}

function surface(color: string, look: BodyProps['look'], seed: number): CanvasTexture {
  const canvas = document.createElement('canvas');
  canvas.width = 512;
  canvas.height = 256;
  const pen = canvas.getContext('2d');
  if (pen) {
    pen.fillStyle = color;
    pen.fillRect(0, 0, 512, 256);
    if (look === 'bands')
      for (let i = 0; i < 11; i++) {
        pen.globalAlpha = 0.25 + 0.35 * random(seed, i, 1);
        pen.fillStyle = random(seed, i, 2) > 0.5 ? lighten(color, 0.35) : darken(color, 0.28);
        pen.fillRect(0, random(seed, i, 3) * 256, 512, 5 + random(seed, i, 4) * 26);
      }
    if (look === 'craters')
      for (let i = 0; i < 46; i++) {
        pen.globalAlpha = 0.16 + 0.2 * random(seed, i, 5);
        pen.fillStyle = random(seed, i, 6) > 0.4 ? darken(color, 0.35) : lighten(color, 0.3);
        pen.beginPath();
        pen.ellipse(random(seed, i, 7) * 512, 30 + random(seed, i, 8) * 196, 6 + random(seed, i, 9) * 34, 4 + random(seed, i, 9) * 20, 0, 0, Math.PI * 2);
        pen.fill();
      }
  }
  const texture = new CanvasTexture(canvas);
  texture.colorSpace = SRGBColorSpace;
  return texture;
}

function halo(color: string): CanvasTexture {
  const canvas = document.createElement('canvas');
  canvas.width = canvas.height = 256;
  const pen = canvas.getContext('2d');
  if (pen) {
    const gradient = pen.createRadialGradient(128, 128, 0, 128, 128, 128);
    for (const [stop, opacity] of [[0, 1], [0.16, 0.9], [0.3, 0.42], [0.5, 0.16], [0.75, 0.045], [1, 0]] as const)
      gradient.addColorStop(stop, fade(lighten(color, 0.25), opacity));
    pen.fillStyle = gradient;
    pen.fillRect(0, 0, 256, 256);
  }
  const texture = new CanvasTexture(canvas);
  texture.colorSpace = SRGBColorSpace;
  return texture;
}

export function Sun({ color, size }: { color: string; size: number }) {
  const { light } = useTheatre('Sun', { light: 1 });
  const glow = useMemo(() => halo(color), [color]);
  const bright = Math.max(0.05, light);
  return (
    <>
      <pointLight intensity={38 * light} decay={1.1} color={lighten(color, 0.55)} />
      <ambientLight intensity={0.35} />
      <mesh scale={size * (0.6 + 0.4 * bright)}>
        <sphereGeometry args={[1, 48, 32]} />
        <meshBasicMaterial color={lighten(color, 0.42)} toneMapped={false} />
      </mesh>
      <sprite scale={size * 7.5 * bright}>
        <spriteMaterial map={glow} transparent depthWrite={false} toneMapped={false} opacity={0.85 * light} />
      </sprite>
    </>
  );
}

export function Body({ name, color, size, path, look, ring = false }: BodyProps) {
  const { angle, enter } = useTheatre(name, { angle: 0, enter: 1 });
  const map = useMemo(() => surface(color, look, Math.round(path * 100)), [color, look, path]);
  const circle = useMemo(() => {
    const points = Array.from({ length: 161 }, (_, i) => new Vector3(Math.cos((i / 160) * Math.PI * 2) * path, 0, Math.sin((i / 160) * Math.PI * 2) * path));
    return new BufferGeometry().setFromPoints(points);
  }, [path]);
  const shown = Math.max(0.001, enter);
  return (
    <>
      <lineLoop geometry={circle}>
        <lineBasicMaterial color={theme.ink} transparent opacity={0.2 * Math.min(1, enter)} toneMapped={false} />
      </lineLoop>
      <group position={[Math.cos(angle) * path, 0, Math.sin(angle) * path]} scale={size * shown} rotation={[0.3, angle * 2.2, 0.2]}>
        <mesh>
          <sphereGeometry args={[1, 40, 28]} />
          <meshStandardMaterial map={map} roughness={0.8} emissive={color} emissiveIntensity={0.07} />
        </mesh>
        {ring && (
          <mesh rotation={[Math.PI / 2.3, 0.2, 0]}>
            <ringGeometry args={[1.4, 2.15, 64]} />
            <meshBasicMaterial color={lighten(color, 0.35)} transparent opacity={0.55} side={DoubleSide} toneMapped={false} />
          </mesh>
        )}
      </group>
    </>
  );
}
