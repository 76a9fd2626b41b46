// The chart's words and figures. How the line draws itself is in src/theatre/state.json.
import { Heading } from '../components/Heading';
import { LineChart, type Point } from '../components/LineChart';

const heading = __HEADING__;
const points: readonly Point[] = __POINTS__;

export function LineChartScene() {
  return (
    <>
      <Heading text={heading} note={__NOTE__} />
      <LineChart heading={heading} points={points} unit={__UNIT__} color={__COLOR__} />
    </>
  );
}
