// Balls on an endless floor. What they look like is set here; how they move is in src/theatre/state.json.
import { Canvas } from '@react-three/fiber';
import { Ball, type BallProps } from '../components/Ball';
import { Camera } from '../components/Camera';
import { Lights } from '../components/Lights';

const balls: readonly BallProps[] = __BALLS__;

export function BounceScene() {
  return (
    <Canvas shadows={false}>
      <Camera distance={__DISTANCE__} height={2.15} target={__TARGET__} />
      <Lights mood={__MOOD__} />
      {balls.map((ball) => (
        <Ball key={ball.name} {...ball} />
      ))}
    </Canvas>
  );
}
