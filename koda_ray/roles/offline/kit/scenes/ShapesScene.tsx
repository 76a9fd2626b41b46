// Solids on an endless floor. What they are is set here; how they move is in src/theatre/state.json.
import { Canvas } from '@react-three/fiber';
import { Camera } from '../components/Camera';
import { Lights } from '../components/Lights';
import { Solid, type SolidProps } from '../components/Solids';

const solids: readonly SolidProps[] = __SOLIDS__;

export function ShapesScene() {
  return (
    <Canvas shadows={false}>
      <Camera distance={9.4} height={2.5} target={1.3} />
      <Lights mood={__MOOD__} />
      {solids.map((solid) => (
        <Solid key={solid.name} {...solid} />
      ))}
    </Canvas>
  );
}
