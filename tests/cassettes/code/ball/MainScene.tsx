import { Canvas } from '@react-three/fiber';
import { Ball } from '../components/Ball';
import { Stage } from '../koda/Stage';

export function MainScene() {
  return (
    <Stage background="linear-gradient(180deg, #f4f1ea 0%, #ddd6c8 100%)">
      <Canvas camera={{ position: [0, 1.4, 6], fov: 35 }}>
        <ambientLight intensity={1.4} />
        <directionalLight position={[-3, 6, 5]} intensity={1.6} />
        <Ball />
        <mesh rotation={[-Math.PI / 2, 0, 0]}>
          <circleGeometry args={[2.4, 48]} />
          <meshStandardMaterial color="#b8ae9c" />
        </mesh>
      </Canvas>
    </Stage>
  );
}
