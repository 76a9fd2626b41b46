// Bars on a zero line. A bar's length is its value and nothing else: Theatre's `grow` runs from 0 to 1 for each.
import { useTheatre } from '../hooks/useTheatre';
import { lighten, mix } from '../lib/colour';
import { decimalsOf, figure } from '../lib/figures';
import { frame, px } from '../lib/frame';
import { textWidth } from '../lib/type';
import { theme } from '../theme';
import { headingHeight } from './Heading';

export interface Bar {
  /** The Theatre object that grows it. */
  readonly name: string;
  readonly label: string;
  readonly value: number;
  readonly unit?: string;
  readonly color: string;
}

interface BarChartProps {
  readonly heading: string;
  readonly bars: readonly Bar[];
  readonly corner: number;
  readonly glow?: boolean;
}

/** The plot's edges in pixels, and the scale from values to lengths. */
function plotOf(heading: string, bars: readonly Bar[]) {
  const values = bars.map((bar) => bar.value);
  const high = Math.max(0, ...values);
  const low = Math.min(0, ...values);
  const labelled = bars.some((bar) => bar.label);
  const left = frame.margin + px(frame.shape === 'wide' ? 60 : 0);
  const right = frame.width - left;
  const top = headingHeight(heading) + px(110);
  const bottom = frame.height - frame.margin - px(labelled ? 70 : 10) - (frame.shape === 'tall' ? px(190) : 0) - (low < 0 ? px(60) : 0);
  const scale = (bottom - top) / (high - low || 1);
  return { left, right, zero: bottom + low * scale, scale };
}

export function BarChart({ heading, bars, corner, glow = false }: BarChartProps) {
  const { reveal, emphasis } = useTheatre('Chart', { reveal: 1, emphasis: 0 });
  const plot = plotOf(heading, bars);
  const step = (plot.right - plot.left) / bars.length;
  const wide = Math.min(step * 0.62, px(230));
  const decimals = decimalsOf(bars.map((bar) => bar.value));
  const most = Math.max(...bars.map((bar) => bar.value));
  const high = Math.max(0, most);
  const longest = Math.max(...bars.map((bar) => textWidth(figure(bar.value, bar.unit, decimals), 1, { ...theme.type, tracking: 0 })));
  const size = Math.min(px(62), (step * 0.92) / longest);
  return (
    <svg width={frame.width} height={frame.height} style={{ position: 'absolute', inset: 0, overflow: 'visible' }}>
      {bars.map((bar, i) => (
        <BarShape
          key={bar.name}
          bar={bar}
          x={plot.left + step * (i + 0.5) - wide / 2}
          width={wide}
          step={step}
          zero={plot.zero}
          scale={plot.scale}
          size={size}
          decimals={decimals}
          corner={corner}
          glow={glow}
          room={high * plot.scale}
          quiet={bar.value === most ? 0 : emphasis}
        />
      ))}
      <rect
        x={frame.width / 2 - ((plot.right - plot.left) / 2) * reveal}
        y={plot.zero - px(1.5)}
        width={(plot.right - plot.left) * reveal}
        height={px(3)}
        rx={px(1.5)}
        fill={theme.ink}
        opacity={0.75}
      />
    </svg>
  );
}

interface BarShapeProps {
  readonly bar: Bar;
  readonly x: number;
  readonly width: number;
  readonly step: number;
  readonly zero: number;
  readonly scale: number;
  readonly size: number;
  readonly decimals: number;
  readonly corner: number;
  readonly glow: boolean;
  /** 0 in full colour to 1 stepped back. */
  readonly quiet: number;
  /** Height of the plot above the zero line, in pixels. */
  readonly room: number;
}

function BarShape({ bar, x, width, step, zero, scale, size, decimals, corner, glow, quiet, room }: BarShapeProps) {
  const { grow } = useTheatre(bar.name, { grow: 0 });
  const length = Math.abs(bar.value) * scale * Math.max(0, grow);
  const down = bar.value < 0;
  const radius = Math.min(width * corner, length);
  const color = mix(bar.color, theme.ground.bottom, quiet * 0.3);
  const end = down ? zero + length : zero - length;
  const turn = down ? -radius : radius;
  const path = `M ${x} ${zero} V ${end + turn} Q ${x} ${end} ${x + radius} ${end} H ${x + width - radius} Q ${x + width} ${end} ${x + width} ${end + turn} V ${zero} Z`;
  const centre = x + width / 2;
  const full = Math.abs(bar.value < 0 ? bar.value * scale : room);
  const shade = `bar-${bar.name.replace(/\W/g, '')}`;
  const label = { fontFamily: theme.type.text, fontWeight: 500, fontSize: Math.min(px(36), (step * 0.94) / Math.max(1, textWidth(bar.label, 1, { family: theme.type.text, weight: 500, tracking: 0 }))) };
  return (
    <g>
      <defs>
        <linearGradient id={shade} x1="0" y1={down ? 1 : 0} x2="0" y2={down ? 0 : 1}>
          <stop offset="0" stopColor={lighten(color, 0.1)} />
          <stop offset="1" stopColor={color} />
        </linearGradient>
      </defs>
      <rect x={x} y={down ? zero : zero - full} width={width} height={full} rx={width * corner} fill={theme.ink} opacity={0.035} />
      {glow && length > 1 && (
        <rect x={x - px(26)} y={Math.min(zero, end) - px(26)} width={width + px(52)} height={length + px(26)} rx={px(40)} fill={color} opacity={0.1} />
      )}
      {length > 0.5 && <path d={path} fill={`url(#${shade})`} />}
      <text
        x={centre}
        y={down ? end + size * 1.12 : end - px(26)}
        textAnchor="middle"
        fill={theme.ink}
        opacity={Math.min(1, grow * 3)}
        style={{ fontFamily: theme.type.text, fontWeight: 700, fontSize: size, fontVariantNumeric: 'tabular-nums', letterSpacing: '-0.02em' }}
      >
        {figure(bar.value * Math.min(1, Math.max(0, grow)), bar.unit, decimals)}
      </text>
      {bar.label && (
        <text x={centre} y={down ? zero - px(22) : zero + px(56)} textAnchor="middle" fill={theme.muted} opacity={Math.min(1, 0.25 + grow * 2)} style={label}>
          {bar.label}
        </text>
      )}
    </g>
  );
}
