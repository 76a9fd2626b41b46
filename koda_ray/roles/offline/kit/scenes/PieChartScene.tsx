// The chart's words and figures. How the slices open is in src/theatre/state.json.
import { Heading } from '../components/Heading';
import { PieChart, type Slice } from '../components/PieChart';

const heading = __HEADING__;
const slices: readonly Slice[] = __SLICES__;

export function PieChartScene() {
  return (
    <>
      <Heading text={heading} note={__NOTE__} />
      <PieChart heading={heading} slices={slices} unit={__UNIT__} hole={__HOLE__} />
    </>
  );
}
