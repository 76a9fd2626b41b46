import { useTheatre } from '../hooks/useTheatre';

export const RADIUS = 0.6;

/** A matt ball; Theatre's object "Ball" says how high it is, and near the ground it is squashed. */
export function Ball() {
  const { position } = useTheatre('Ball', { position: { x: 0, y: 2.2 } });
  const squash = Math.max(0, 0.85 - position.y) * 0.5;
  const width = 1 / Math.sqrt(1 - squash);
  return (
    <group position={[position.x, position.y - RADIUS * squash, 0]} scale={[width, 1 - squash, width]}>
      <mesh>
        <sphereGeometry args={[RADIUS, 32, 24]} />
        <meshStandardMaterial color="#2f6bff" roughness={0.5} />
      </mesh>
    </group>
  );
}
