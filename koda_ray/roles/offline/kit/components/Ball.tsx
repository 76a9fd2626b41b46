// A ball that falls, lands and gives way: its height, squash and spin are Theatre's, its contact shadow follows from them.
import { useMemo } from 'react';
import { CanvasTexture, SRGBColorSpace } from 'three';
import { useTheatre } from '../hooks/useTheatre';
import { darken, lighten } from '../lib/colour';
import { ContactShadow } from './ContactShadow';

export interface BallProps {
  /** The Theatre object that moves it. */
  readonly name: string;
  readonly color: string;
  readonly size?: number;
  readonly x?: number;
  readonly z?: number;
  readonly finish?: 'rubber' | 'satin' | 'gloss';
  readonly pattern?: 'plain' | 'stripe' | 'beach';
  readonly shadow?: boolean;
  readonly mirrored?: boolean;
}

/** The ball's skin: plain colour with a pattern that lets the eye see it turn. */
function skin(color: string, pattern: BallProps['pattern']): CanvasTexture {
  const canvas = document.createElement('canvas');
  canvas.width = 1024;
  canvas.height = 512;
  const pen = canvas.getContext('2d');
  if (pen) {
    pen.fillStyle = color;
    pen.fillRect(0, 0, 1024, 512);
    if (pattern === 'stripe') {
      pen.fillStyle = lighten(color, 0.82);
      pen.fillRect(0, 216, 1024, 34);
      pen.fillStyle = darken(color, 0.16);
      pen.fillRect(0, 262, 1024, 16);
    } else if (pattern === 'beach') {
      for (let i = 0; i < 6; i += 2) {
        pen.fillStyle = lighten(color, 0.78);
        pen.fillRect((i * 1024) / 6, 0, 1024 / 6, 512);
      }
      pen.fillStyle = lighten(color, 0.86);
      pen.fillRect(0, 0, 1024, 52);
      pen.fillRect(0, 460, 1024, 52);
    }
  }
  const texture = new CanvasTexture(canvas);
  texture.colorSpace = SRGBColorSpace;
  texture.anisotropy = 4;
  return texture;
}

export function Ball({ name, color, size = 1, x = 0, z = 0, finish = 'rubber', pattern = 'plain', shadow = true, mirrored = false }: BallProps) {
  const motion = useTheatre(name, { height: 0, x: 0, squash: 1, spin: 0 });
  const map = useMemo(() => skin(color, pattern), [color, pattern]);
  const wide = 1 / Math.sqrt(motion.squash);
  const at = x + motion.x;
  const y = motion.height + size * motion.squash;
  const surface = {
    rubber: { roughness: 0.42, clearcoat: 0.35, clearcoatRoughness: 0.35 },
    satin: { roughness: 0.55, clearcoat: 0.15, clearcoatRoughness: 0.5 },
    gloss: { roughness: 0.22, clearcoat: 1, clearcoatRoughness: 0.08 },
  }[finish];
  const body = (seen: number) => (
    <group rotation={[0.35, 0, 0.42]}>
      <mesh rotation={[0, motion.spin, 0]}>
        <sphereGeometry args={[size, 64, 48]} />
        <meshPhysicalMaterial map={map} {...surface} transparent={seen < 1} opacity={seen} />
      </mesh>
    </group>
  );
  return (
    <>
      <group position={[at, y, z]} scale={[wide, motion.squash, wide]}>
        {body(1)}
      </group>
      {mirrored && (
        <group position={[at, -y, z]} scale={[wide, -motion.squash, wide]}>
          {body(0.14)}
        </group>
      )}
      {shadow && <ContactShadow x={at} z={z} height={motion.height} radius={size * wide} />}
    </>
  );
}
