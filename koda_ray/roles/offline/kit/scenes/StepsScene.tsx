// The steps and their words. When each arrives is in src/theatre/state.json.
import { Heading } from '../components/Heading';
import { Steps, type Step } from '../components/Steps';

const heading = __HEADING__;
const steps: readonly Step[] = __STEPS__;

export function StepsScene() {
  return (
    <>
      <Heading text={heading} />
      <Steps heading={heading} steps={steps} corner={__CORNER__} manner={__MANNER__} />
    </>
  );
}
