// When and where each shell bursts.
import { Fireworks, type Shell } from '../components/Fireworks';

const shells: readonly Shell[] = __SHELLS__;

export function FireworksScene() {
  return <Fireworks shells={shells} pace={__PACE__} seed={__SEED__} />;
}
