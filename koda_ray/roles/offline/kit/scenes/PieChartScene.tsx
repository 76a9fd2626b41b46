// The chart's words and figures. How the slices open is in src/theatre/state.json.
import { Heading } from '../components/Heading';
import { PieChart, type Slice } from '../components/PieChart';
import { Layer } from '../koda/Stage';

const heading = __HEADING__;
const slices: readonly Slice[] = __SLICES__;

export function PieChartScene() {
  return (
    <>
      <Heading text={heading} note={__NOTE__} />
      <Layer style={__SIZE__}>
        <PieChart heading={heading} slices={slices} unit={__UNIT__} hole={__HOLE__} />
      </Layer>
    </>
  );
}
