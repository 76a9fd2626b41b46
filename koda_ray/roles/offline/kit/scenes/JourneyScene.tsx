// Who travels through which landscape. The way is in src/theatre/state.json.
import { Hero, type HeroProps } from '../components/Hero';
import { Scenery } from '../components/Scenery';

const heroes: readonly HeroProps[] = __HEROES__;

export function JourneyScene() {
  return (
    <>
      <Scenery place={__PLACE__} seed={__SEED__} heading={__HEADING__} />
      {heroes.map((hero) => (
        <Hero key={hero.name} {...hero} />
      ))}
    </>
  );
}
