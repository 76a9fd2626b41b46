// What is counted and what it ends with. The beat is in src/theatre/state.json.
import { Countdown, type CountdownProps } from '../components/Countdown';

const countdown: CountdownProps = __COUNTDOWN__;

export function CountdownScene() {
  return <Countdown {...countdown} />;
}
