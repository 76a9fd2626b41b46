// Mark, name and tagline. Their choreography is in src/theatre/state.json.
import { Logo, type LogoProps } from '../components/Logo';

const logo: LogoProps = __LOGO__;

export function LogoScene() {
  return <Logo {...logo} />;
}
