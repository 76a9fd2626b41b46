// Clay-like solids that gather, trade places and settle. Theatre moves each one's place, turn and scale.
import { useMemo } from 'react';
import { ExtrudeGeometry, Shape } from 'three';
import { useTheatre } from '../hooks/useTheatre';
import { ContactShadow } from './ContactShadow';

export interface SolidProps {
  /** The Theatre object that moves it. */
  readonly name: string;
  readonly kind: 'cube' | 'sphere' | 'torus' | 'cone' | 'pyramid' | 'cylinder' | 'gem' | 'hexagon' | 'capsule' | 'knot';
  readonly color: string;
  readonly size: number;
  readonly gloss: number;
  readonly shadow?: boolean;
}

/** A square with round corners, thick and bevelled: a cube that is pleasant to look at. */
function softCube(): ExtrudeGeometry {
  const half = 0.66;
  const radius = 0.2;
  const shape = new Shape();
  shape.moveTo(-half + radius, -half);
  shape.lineTo(half - radius, -half).quadraticCurveTo(half, -half, half, -half + radius);
  shape.lineTo(half, half - radius).quadraticCurveTo(half, half, half - radius, half);
  shape.lineTo(-half + radius, half).quadraticCurveTo(-half, half, -half, half - radius);
  shape.lineTo(-half, -half + radius).quadraticCurveTo(-half, -half, -half + radius, -half);
  const solid = new ExtrudeGeometry(shape, { depth: 1.1, bevelEnabled: true, bevelThickness: 0.14, bevelSize: 0.14, bevelSegments: 5, curveSegments: 8 });
  solid.center();
  return solid;
}

export function Solid({ name, kind, color, size, gloss, shadow = true }: SolidProps) {
  const { x, y, z, turn, roll, scale } = useTheatre(name, { x: 0, y: 1, z: 0, turn: 0, roll: 0, scale: 1 });
  const cube = useMemo(() => (kind === 'cube' ? softCube() : undefined), [kind]);
  const radius = size * Math.max(0.001, scale);
  return (
    <>
      <mesh position={[x, y, z]} rotation={[roll, turn, roll * 0.4]} scale={radius} geometry={cube}>
        {kind === 'sphere' && <sphereGeometry args={[1, 48, 32]} />}
        {kind === 'torus' && <torusGeometry args={[0.78, 0.32, 28, 64]} />}
        {kind === 'cone' && <coneGeometry args={[0.95, 1.6, 64]} />}
        {kind === 'pyramid' && <coneGeometry args={[1.1, 1.5, 4]} />}
        {kind === 'cylinder' && <cylinderGeometry args={[0.72, 0.72, 1.4, 64]} />}
        {kind === 'gem' && <octahedronGeometry args={[1.08]} />}
        {kind === 'hexagon' && <cylinderGeometry args={[0.95, 0.95, 0.7, 6]} />}
        {kind === 'capsule' && <capsuleGeometry args={[0.5, 0.9, 12, 40]} />}
        {kind === 'knot' && <torusKnotGeometry args={[0.62, 0.22, 128, 20]} />}
        <meshStandardMaterial color={color} roughness={0.62 - gloss * 0.4} metalness={0} flatShading={kind === 'gem' || kind === 'pyramid' || kind === 'hexagon'} />
      </mesh>
      {shadow && <ContactShadow x={x} z={z} height={Math.max(0, y - radius)} radius={radius * 0.95} strength={0.5 * Math.min(1, scale)} />}
    </>
  );
}
