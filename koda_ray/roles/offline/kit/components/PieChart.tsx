// A ring of slices, each opening to its share, beside a legend that counts up. Theatre's `open` runs from 0 to 1 for each.
import { useTheatre } from '../hooks/useTheatre';
import { decimalsOf, figure } from '../lib/figures';
import { frame, px } from '../lib/frame';
import { textWidth } from '../lib/type';
import { theme } from '../theme';
import { clamp } from '../utils/easing';
import { headingHeight } from './Heading';

export interface Slice {
  /** The Theatre object that opens it. */
  readonly name: string;
  readonly label: string;
  readonly value: number;
  readonly color: string;
}

interface PieChartProps {
  readonly heading: string;
  readonly slices: readonly Slice[];
  readonly unit?: string;
  /** Inner radius as a share of the outer one. */
  readonly hole: number;
}

function arc(cx: number, cy: number, outer: number, inner: number, from: number, to: number): string {
  const sweep = Math.min(to - from, Math.PI * 2 - 0.0001);
  const point = (radius: number, angle: number): string => `${cx + Math.sin(angle) * radius} ${cy - Math.cos(angle) * radius}`;
  const large = sweep > Math.PI ? 1 : 0;
  const end = from + sweep;
  return `M ${point(outer, from)} A ${outer} ${outer} 0 ${large} 1 ${point(outer, end)} L ${point(inner, end)} A ${inner} ${inner} 0 ${large} 0 ${point(inner, from)} Z`;
}

export function PieChart({ heading, slices, unit = '', hole }: PieChartProps) {
  const { turn, emphasis } = useTheatre('Chart', { turn: 0, emphasis: 0 });
  const total = slices.reduce((sum, slice) => sum + slice.value, 0);
  const wide = frame.shape === 'wide';
  const top = headingHeight(heading);
  const room = frame.height - top - frame.margin;
  const outer = wide ? Math.min(room / 2 - px(10), px(360)) : Math.min(frame.width / 2 - frame.margin - px(20), room * 0.3);
  const cx = wide ? frame.width * 0.33 : frame.width / 2;
  const cy = wide ? top + room / 2 - px(8) : top + outer + px(20);
  let angle = turn;
  const shares = slices.map((slice) => {
    const from = angle;
    angle += (slice.value / total) * Math.PI * 2;
    return { slice, from, to: angle };
  });
  const most = Math.max(...slices.map((slice) => slice.value));
  return (
    <svg width={frame.width} height={frame.height} style={{ position: 'absolute', inset: 0, overflow: 'visible' }}>
      <circle cx={cx} cy={cy} r={(outer * (1 + hole)) / 2} fill="none" stroke={theme.ink} strokeWidth={outer * (1 - hole)} opacity={0.06} />
      {shares.map(({ slice, from, to }) => (
        <SliceShape key={slice.name} slice={slice} from={from} to={to} cx={cx} cy={cy} outer={outer} inner={outer * hole} lift={slice.value === most ? emphasis : 0} />
      ))}
      <Legend slices={slices} unit={unit} total={total} x={wide ? frame.width * 0.6 : frame.margin} y={wide ? cy : cy + outer + px(90)} centred={wide} emphasis={emphasis} />
    </svg>
  );
}

interface SliceShapeProps {
  readonly slice: Slice;
  readonly from: number;
  readonly to: number;
  readonly cx: number;
  readonly cy: number;
  readonly outer: number;
  readonly inner: number;
  readonly lift: number;
}

function SliceShape({ slice, from, to, cx, cy, outer, inner, lift }: SliceShapeProps) {
  const { open } = useTheatre(slice.name, { open: 0 });
  const end = from + (to - from) * Math.max(0, open);
  if (end - from < 0.002) return null;
  const middle = (from + to) / 2;
  const away = lift * px(22);
  return (
    <path
      d={arc(cx + Math.sin(middle) * away, cy - Math.cos(middle) * away, outer + lift * px(14), inner, from, end)}
      fill={slice.color}
      stroke={theme.ground.bottom}
      strokeWidth={px(5)}
      strokeLinejoin="round"
    />
  );
}

interface LegendProps {
  readonly slices: readonly Slice[];
  readonly unit: string;
  readonly total: number;
  readonly x: number;
  readonly y: number;
  readonly centred: boolean;
  readonly emphasis: number;
}

function Legend({ slices, unit, total, x, y, centred, emphasis }: LegendProps) {
  const step = Math.min(px(118), (frame.height - headingHeight('x') - frame.margin) / slices.length);
  const start = centred ? y - (step * (slices.length - 1)) / 2 : y;
  return (
    <>
      {slices.map((slice, i) => (
        <LegendRow key={slice.name} slice={slice} unit={unit} total={total} x={x} y={start + i * step} step={step} strong={i === 0 ? emphasis : 0} />
      ))}
    </>
  );
}

function LegendRow({ slice, unit, total, x, y, step, strong }: { slice: Slice; unit: string; total: number; x: number; y: number; step: number; strong: number }) {
  const { open } = useTheatre(slice.name, { open: 0 });
  const shown = clamp(open);
  const share = (slice.value / total) * 100;
  const decimals = unit === '%' ? decimalsOf([slice.value]) : 0;
  const text = unit === '%' ? figure(slice.value * shown, '%', decimals) : figure(share * shown, '%', 0);
  const size = Math.min(px(66), step * 0.62);
  const left = x + px(64);
  const room = frame.width - frame.margin - left;
  const number = { fontFamily: theme.type.text, fontWeight: 750, fontSize: size, letterSpacing: '-0.02em', fontVariantNumeric: 'tabular-nums' } as const;
  const offset = textWidth('100%', size, { family: theme.type.text, weight: 750, tracking: 0 }) + px(34);
  const label = Math.min(px(44), size * 0.7, ((room - offset) / Math.max(1, textWidth(slice.label, 1, { family: theme.type.text, weight: 500, tracking: 0 }))) * 0.98);
  return (
    <g opacity={clamp(shown * 4 + 0.12)} transform={`translate(${(1 - clamp(shown * 2)) * px(50) + strong * px(10)} 0)`}>
      <rect x={x} y={y - px(17)} width={px(34)} height={px(34)} rx={px(10)} fill={slice.color} />
      <text x={left} y={y + size * 0.36} fill={theme.ink} style={number}>
        {text}
      </text>
      <text x={left + offset} y={y + size * 0.36} fill={theme.muted} style={{ fontFamily: theme.type.text, fontWeight: 500, fontSize: label }}>
        {slice.label}
      </text>
    </g>
  );
}
