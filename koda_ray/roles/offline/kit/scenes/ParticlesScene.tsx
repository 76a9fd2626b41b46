// What drifts through the picture, and over which landscape.
import { Particles, type ParticlesProps } from '../components/Particles';
import { Scenery } from '../components/Scenery';

const particles: ParticlesProps = __PARTICLES__;

export function ParticlesScene() {
  return (
    <>
      <Scenery place={__PLACE__} seed={particles.seed ?? 1} heading={0} />
      <Particles {...particles} />
    </>
  );
}
