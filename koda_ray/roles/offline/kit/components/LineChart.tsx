// A line that draws itself through its points, with the value at its tip and at each point that it has passed. Theatre's `draw` runs from 0 to 1.
import { useTheatre } from '../hooks/useTheatre';
import { fade } from '../lib/colour';
import { decimalsOf, figure } from '../lib/figures';
import { frame, px } from '../lib/frame';
import { theme } from '../theme';
import { clamp, easeOutBack, lerp } from '../utils/easing';
import { headingHeight } from './Heading';

export interface Point {
  readonly label: string;
  readonly value: number;
}

interface LineChartProps {
  readonly heading: string;
  readonly points: readonly Point[];
  readonly unit?: string;
  readonly color: string;
}

const SAMPLES = 40;

/** Tangents of a curve that never overshoots its points (Fritsch and Carlson). */
function tangents(values: readonly number[]): number[] {
  const slopes = values.slice(1).map((value, i) => value - (values[i] ?? 0));
  return values.map((_, i) => {
    const before = slopes[i - 1] ?? slopes[0] ?? 0;
    const after = slopes[i] ?? slopes[slopes.length - 1] ?? 0;
    if (i === 0 || i === values.length - 1) return i === 0 ? after : before;
    return before * after <= 0 ? 0 : (2 * before * after) / (before + after);
  });
}

/** The value between points: `at` counts points from 0. */
function valueAt(values: readonly number[], slopes: readonly number[], at: number): number {
  const i = Math.min(Math.floor(at), values.length - 2);
  const t = at - i;
  const [a = 0, b = 0] = [values[i], values[i + 1]];
  const [m = 0, n = 0] = [slopes[i], slopes[i + 1]];
  const t2 = t * t;
  const t3 = t2 * t;
  return a * (2 * t3 - 3 * t2 + 1) + m * (t3 - 2 * t2 + t) + b * (3 * t2 - 2 * t3) + n * (t3 - t2);
}

export function LineChart({ heading, points, unit = '', color }: LineChartProps) {
  const { reveal, draw, emphasis } = useTheatre('Chart', { reveal: 1, draw: 1, emphasis: 0 });
  const values = points.map((point) => point.value);
  const decimals = decimalsOf(values);
  const high = Math.max(...values);
  const low = Math.min(0, ...values);
  const left = frame.margin + px(30);
  const right = frame.width - frame.margin - px(110);
  const top = headingHeight(heading) + px(90);
  const bottom = frame.height - frame.margin - px(60) - (frame.shape === 'tall' ? px(260) : 0);
  const x = (i: number): number => left + ((right - left) * i) / Math.max(1, points.length - 1);
  const y = (value: number): number => lerp(bottom, top, (value - low) / (high - low || 1));
  const slopes = tangents(values);
  const tip = clamp(draw) * (points.length - 1);
  const path: string[] = [];
  for (let s = 0; s <= Math.floor(tip * SAMPLES); s++) path.push(`${x(s / SAMPLES).toFixed(2)},${y(valueAt(values, slopes, s / SAMPLES)).toFixed(2)}`);
  const value = valueAt(values, slopes, tip);
  const at = { x: x(tip), y: y(value) };
  path.push(`${at.x.toFixed(2)},${at.y.toFixed(2)}`);
  const line = `M ${path.join(' L ')}`;
  const every = Math.ceil(points.length / (frame.shape === 'wide' ? 12 : 6));
  return (
    <svg width={frame.width} height={frame.height} style={{ position: 'absolute', inset: 0, overflow: 'visible' }}>
      <defs>
        <linearGradient id="area" x1="0" y1="0" x2="0" y2="1">
          <stop offset="0" stopColor={color} stopOpacity={0.34} />
          <stop offset="1" stopColor={color} stopOpacity={0} />
        </linearGradient>
      </defs>
      {[0, 0.25, 0.5, 0.75, 1].map((share) => (
        <line
          key={share}
          x1={left}
          x2={left + (right - left + px(110)) * reveal}
          y1={lerp(bottom, top, share)}
          y2={lerp(bottom, top, share)}
          stroke={theme.ink}
          strokeWidth={px(share === 0 ? 3 : 1.5)}
          opacity={share === 0 ? 0.7 : 0.12}
        />
      ))}
      <path d={`${line} L ${at.x},${bottom} L ${left},${bottom} Z`} fill="url(#area)" />
      <path d={line} fill="none" stroke={color} strokeWidth={px(9)} strokeLinecap="round" strokeLinejoin="round" />
      {points.map((point, i) => {
        const there = easeOutBack(clamp((tip - i) * 2.5 + (i === 0 ? 1 : 0)));
        const beside = (points[i + 1]?.value ?? point.value) > point.value ? px(34) : 0;
        return (
          <g key={i}>
            <circle cx={x(i)} cy={y(point.value)} r={px(11) * there} fill={theme.ground.bottom} stroke={color} strokeWidth={px(6) * there} />
            {i < points.length - 1 && i % every === 0 && (
              <text x={x(i) - beside} y={y(point.value) - px(36)} textAnchor="middle" fill={theme.ink} opacity={clamp((tip - i) * 3 - 1.2)} style={{ fontFamily: theme.type.text, fontWeight: 600, fontSize: px(42), fontVariantNumeric: 'tabular-nums' }}>
                {figure(Number(point.value.toFixed(decimals)), unit, decimals)}
              </text>
            )}
            {point.label && i % every === 0 && (
              <text x={x(i)} y={bottom + px(56)} textAnchor="middle" fill={theme.muted} opacity={clamp(0.3 + (tip - i + 1))} style={{ fontFamily: theme.type.text, fontWeight: 500, fontSize: px(38) }}>
                {point.label}
              </text>
            )}
          </g>
        );
      })}
      <circle cx={at.x} cy={at.y} r={px(30 + emphasis * 16)} fill={fade(color, 0.24 * (1 - emphasis * 0.5))} />
      <circle cx={at.x} cy={at.y} r={px(15)} fill={color} />
      <text
        x={Math.min(at.x, frame.width - frame.margin - px(60))}
        y={at.y - px(54)}
        textAnchor="middle"
        fill={theme.ink}
        style={{ fontFamily: theme.type.text, fontWeight: 750, fontSize: px(60), fontVariantNumeric: 'tabular-nums', letterSpacing: '-0.02em' }}
      >
        {figure(Number(value.toFixed(decimals)), unit, decimals)}
      </text>
    </svg>
  );
}
