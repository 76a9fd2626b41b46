// Three lights and a room to reflect: a soft key, a fill from the ground, a rim that parts things from the background.
import { Environment } from '@react-three/drei';
import { lighten } from '../lib/colour';
import { theme } from '../theme';

interface LightsProps {
  readonly mood: 'playful' | 'smooth' | 'cinematic';
}

export function Lights({ mood }: LightsProps) {
  if (mood === 'cinematic')
    return (
      <>
        <hemisphereLight args={[lighten(theme.ground.glow, 0.2), lighten(theme.ground.bottom, 0.1), 0.7]} />
        <directionalLight position={[-4, 6, 3]} intensity={2.3} color="#fff3e2" />
        <directionalLight position={[5, 3, -5]} intensity={3.4} color={lighten(theme.accent, 0.25)} />
        <Environment preset="studio" environmentIntensity={0.55} />
      </>
    );
  return (
    <>
      <hemisphereLight args={['#ffffff', lighten(theme.ground.glow, 0.35), mood === 'smooth' ? 1.25 : 1.35]} />
      <directionalLight position={[-3.5, 6, 4.5]} intensity={1.6} color="#fffaf2" />
      <directionalLight position={[5, 2.5, -3]} intensity={0.8} color={lighten(theme.ground.glow, 0.4)} />
      <Environment preset={mood === 'smooth' ? 'apartment' : 'studio'} environmentIntensity={0.5} />
    </>
  );
}
