// A glossy ball. Theatre's object "Ball" says where it is and how much it is squashed.
import { editable as e } from '@theatre/r3f';
import { types } from '@theatre/core';
import { useTheatre } from '../hooks/useTheatre';

export const RADIUS = 0.58;

export function useBall() {
  return useTheatre('Ball', { position: { x: -12, y: 4 }, squash: types.number(0, { range: [-0.5, 0.6] }) });
}

export function Ball() {
  const { position, squash } = useBall();
  // wider by as much as keeps the volume, and standing on the point it touches
  const height = 1 - squash;
  const width = 1 / Math.sqrt(height);
  return (
    <group position={[position.x, position.y - RADIUS * squash, 0]}>
      <group scale={[width, height, width]}>
        {/* a Theatre object of its own: its material side and turn can be set in the editor */}
        <e.mesh theatreKey="Ball / Surface" rotation={[0.2, 0.5, 0]}>
          <sphereGeometry args={[RADIUS, 96, 64]} />
          <meshPhysicalMaterial color="#ff4f2e" roughness={0.24} clearcoat={1} clearcoatRoughness={0.08} />
        </e.mesh>
      </group>
    </group>
  );
}
