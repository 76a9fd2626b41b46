// The steps and their words. When each arrives is in src/theatre/state.json.
import { Heading } from '../components/Heading';
import { Steps, type Step } from '../components/Steps';
import { Layer } from '../koda/Stage';

const heading = __HEADING__;
const steps: readonly Step[] = __STEPS__;

export function StepsScene() {
  return (
    <>
      <Heading text={heading} />
      <Layer style={__SIZE__}>
        <Steps heading={heading} steps={steps} corner={__CORNER__} manner={__MANNER__} />
      </Layer>
    </>
  );
}
