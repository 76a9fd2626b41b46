// The demo: a ball hops over the letters of a word and comes to rest as its full stop.
import { Canvas } from '@react-three/fiber';
import { Environment } from '@react-three/drei';
import { Ball, RADIUS, useBall } from '../components/Ball';
import { SoftShadow } from '../components/SoftShadow';
import { Title, type Letter } from '../components/Title';
import { Layer, Stage } from '../koda/Stage';
import { useTheatre } from '../hooks/useTheatre';

const BASELINE = 700;
const LETTERS: readonly Letter[] = [
  { glyph: 'k', x: 485, hit: 0.95 },
  { glyph: 'o', x: 755, hit: 1.45 },
  { glyph: 'd', x: 1035, hit: 1.95 },
  { glyph: 'a', x: 1295, hit: 2.45 },
];

// the camera that makes 100 design pixels one unit at z = 0
const DISTANCE = 20;
const FIELD_OF_VIEW = (2 * Math.atan(5.4 / DISTANCE) * 180) / Math.PI;
const GROUND = (540 - BASELINE) / 100;

function Shadow() {
  const { position } = useBall();
  return <SoftShadow x={position.x} ground={GROUND} height={position.y - GROUND - RADIUS} radius={RADIUS} />;
}

export function MainScene() {
  const { drift } = useTheatre('Camera', { drift: 0 });
  return (
    <Stage background="radial-gradient(120% 130% at 24% 12%, #fff4e6 0%, #ffdcc4 38%, #ffb9ad 68%, #f593a8 100%)">
      <Layer style={{ transformOrigin: '50% 60%', transform: `scale(${1 + 0.05 * drift})` }}>
        <Title letters={LETTERS} baseline={BASELINE} caption="From a sentence to a film." />
        <Canvas camera={{ position: [0, 0, DISTANCE], fov: FIELD_OF_VIEW }}>
          <Environment preset="studio" environmentIntensity={1.15} />
          <hemisphereLight args={['#fff1e0', '#ff9d8a', 1.4]} />
          <directionalLight position={[-4, 8, 6]} intensity={1.5} />
          <Shadow />
          <Ball />
        </Canvas>
      </Layer>
    </Stage>
  );
}
