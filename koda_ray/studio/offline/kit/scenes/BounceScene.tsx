// Balls on an endless floor. What they look like is set here; how they move is in src/theatre/state.json.
import { Canvas } from '@react-three/fiber';
import { Ball, type BallProps } from '../components/Ball';
import { Camera } from '../components/Camera';
import { Lights } from '../components/Lights';
import { theme } from '../theme';

const balls: readonly BallProps[] = __BALLS__;

export function BounceScene() {
  return (
    <Canvas shadows={false}>
      <Camera distance={12.5} height={1.9} target={1.72} />
      <Lights mood={__MOOD__} />
      {balls.map((ball) => (
        <Ball key={ball.name} {...ball} />
      ))}
    </Canvas>
  );
}
