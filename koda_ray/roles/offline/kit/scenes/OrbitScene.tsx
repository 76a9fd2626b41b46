// A star, its bodies, and the camera's height above their plane. Their motion is in src/theatre/state.json.
import { Canvas } from '@react-three/fiber';
import { Camera } from '../components/Camera';
import { Body, Sun, type BodyProps } from '../components/Orbits';

const bodies: readonly BodyProps[] = __BODIES__;

export function OrbitScene() {
  return (
    <Canvas shadows={false}>
      <Camera distance={__DISTANCE__} height={__HEIGHT__} target={0} fov={32} />
      <Sun color={__SUN__} size={__SIZE__} />
      {bodies.map((body) => (
        <Body key={body.name} {...body} />
      ))}
    </Canvas>
  );
}
