// The chart's words and figures. How the bars grow is in src/theatre/state.json.
import { BarChart, type Bar } from '../components/BarChart';
import { Heading } from '../components/Heading';
import { Layer } from '../koda/Stage';

const heading = __HEADING__;
const bars: readonly Bar[] = __BARS__;

export function BarChartScene() {
  return (
    <>
      <Heading text={heading} note={__NOTE__} />
      <Layer style={__SIZE__}>
        <BarChart heading={heading} bars={bars} corner={__CORNER__} glow={__GLOW__} />
      </Layer>
    </>
  );
}
