// The chart's words and figures. How the line draws itself is in src/theatre/state.json.
import { Heading } from '../components/Heading';
import { LineChart, type Point } from '../components/LineChart';
import { Layer } from '../koda/Stage';

const heading = __HEADING__;
const points: readonly Point[] = __POINTS__;

export function LineChartScene() {
  return (
    <>
      <Heading text={heading} note={__NOTE__} />
      <Layer style={__SIZE__}>
        <LineChart heading={heading} points={points} unit={__UNIT__} color={__COLOR__} />
      </Layer>
    </>
  );
}
