// Landscapes in flat layers that pass at their own pace: near ones quicker. Theatre moves `pass` from 0 to 1.
import { useMemo } from 'react';
import { useTheatre } from '../hooks/useTheatre';
import { darken, fade, lighten, mix } from '../lib/colour';
import { frame, px } from '../lib/frame';
import { theme } from '../theme';
import { noise1D, random } from '../utils/easing';

export type Place = 'sky' | 'land' | 'sea' | 'space' | 'none';

interface SceneryProps {
  readonly place: Place;
  readonly seed: number;
  /** Which way the world passes: 1 to the left, -1 to the right, 0 not at all. */
  readonly heading: number;
}

const REACH = 2.2;

/** A hill line from left to right, `REACH` pictures long, as an SVG path that is closed below. */
function ridge(base: number, height: number, rough: number, seed: number): string {
  const points: string[] = [];
  const step = px(24);
  for (let x = 0; x <= frame.width * REACH; x += step) {
    const u = x / px(420 / rough);
    const y = base - height * (0.5 + 0.38 * noise1D(u, seed) + 0.16 * noise1D(u * 2.7, seed + 9));
    points.push(`${x.toFixed(1)},${y.toFixed(1)}`);
  }
  return `M 0,${frame.height} L ${points.join(' L ')} L ${frame.width * REACH},${frame.height} Z`;
}

export function Scenery({ place, seed, heading }: SceneryProps) {
  const { pass } = useTheatre('Scenery', { pass: 0 });
  const { width, height } = frame;
  const far = mix(theme.ground.bottom, theme.ground.glow, 0.35);
  const near = theme.dark ? darken(theme.ground.bottom, 0.35) : mix(theme.ground.bottom, (theme.ground.ink ?? theme.ink), 0.22);
  const layers = useMemo(
    () => [ridge(height * 0.84, px(250), 0.8, seed), ridge(height * 0.93, px(220), 1.1, seed + 1), ridge(height * 1.01, px(200), 1.5, seed + 2)],
    [height, seed],
  );
  const shift = (pace: number): number => {
    const way = (width * (REACH - 1) * pace * pass) % (width * (REACH - 1));
    return heading < 0 ? -width * (REACH - 1) * pace + way : -way * heading;
  };
  if (place === 'none') return null;
  return (
    <svg width={width} height={height} style={{ position: 'absolute', inset: 0 }}>
      {place === 'space' &&
        Array.from({ length: 150 }, (_, i) => (
          <circle
            key={i}
            cx={(((random(seed, i) * width * 1.2 - pass * heading * px(40 + 160 * random(seed, i, 3))) % width) + width) % width}
            cy={random(seed, i, 1) * height}
            r={px(1.2 + 2.6 * random(seed, i, 2) ** 3)}
            fill="#ffffff"
            opacity={0.35 + 0.65 * Math.abs(Math.sin(pass * 9 + i))}
          />
        ))}
      {place !== 'space' && (
        <>
          <circle cx={width * 0.76} cy={height * 0.24} r={px(92)} fill={lighten(theme.ground.glow, 0.55)} opacity={0.9} />
          {[0, 1, 2, 3].map((i) => (
            <Cloud key={i} x={width * (0.06 + i * 0.34) + shift(0.1 + 0.05 * i)} y={height * (0.13 + 0.1 * random(seed, i, 4))} size={px(90 + 70 * random(seed, i, 5))} opacity={0.55 + 0.1 * i} />
          ))}
        </>
      )}
      {(place === 'sky' || place === 'land') &&
        layers.map((path, i) => <path key={i} d={path} fill={mix(far, near, i / 2)} transform={`translate(${shift(0.18 + i * 0.3)} 0)`} />)}
      {place === 'land' && (
        <>
          <rect x={0} y={height * 0.86} width={width} height={height * 0.14} fill={mix(near, (theme.ground.ink ?? theme.ink), 0.35)} />
          {Array.from({ length: 14 }, (_, i) => (
            <rect key={i} x={i * px(220) - ((pass * heading * width * 1.6) % px(220))} y={height * 0.925} width={px(110)} height={px(9)} rx={px(4)} fill={fade('#ffffff', 0.6)} />
          ))}
        </>
      )}
      {place === 'sea' &&
        [0, 1, 2].map((i) => {
          const base = height * (0.7 + i * 0.1);
          const crest = Array.from({ length: 50 }, (_, n) => {
            const x = (n / 48) * width;
            return `${x.toFixed(1)},${(base + Math.sin(n * 0.55 + i * 2 + pass * 14 * (i % 2 ? -1 : 1)) * px(10 + i * 5)).toFixed(1)}`;
          });
          return <path key={i} d={`M 0,${height} L ${crest.join(' L ')} L ${width},${height} Z`} fill={mix(far, darken(theme.ground.bottom, 0.28), 0.35 + i * 0.3)} opacity={0.92} />;
        })}
    </svg>
  );
}

function Cloud({ x, y, size, opacity }: { x: number; y: number; size: number; opacity: number }) {
  const span = frame.width * 1.5;
  const at = (((x + size * 2) % span) + span) % span - size * 2;
  return (
    <g transform={`translate(${at} ${y})`} fill={lighten(theme.ground.glow, theme.dark ? 0.15 : 0.65)} opacity={opacity}>
      <circle cx={0} cy={0} r={size * 0.42} />
      <circle cx={size * 0.55} cy={-size * 0.22} r={size * 0.56} />
      <circle cx={size * 1.15} cy={0} r={size * 0.44} />
      <rect x={-size * 0.42} y={-size * 0.05} width={size * 2} height={size * 0.48} rx={size * 0.24} />
    </g>
  );
}
