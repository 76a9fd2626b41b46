// The ground that everything stands on: a gradient, a light that falls on it, and one quiet motif.
import { useTheatre } from '../hooks/useTheatre';
import { Layer } from '../koda/Stage';
import { fade, mix } from '../lib/colour';
import { frame, px } from '../lib/frame';
import { theme } from '../theme';

export type Motif = 'plain' | 'blobs' | 'rings' | 'dots' | 'rays' | 'beam' | 'horizon';

interface BackdropProps {
  readonly motif?: Motif;
  /** Where the light falls, in shares of the picture. */
  readonly lightX?: number;
  readonly lightY?: number;
}

export function Backdrop({ motif = 'plain', lightX = 0.5, lightY = 0.42 }: BackdropProps) {
  const { light, drift } = useTheatre('Backdrop', { light: 1, drift: 0 });
  const { top, bottom, glow } = theme.ground;
  const reach = Math.hypot(frame.width, frame.height);
  return (
    <Layer style={{ background: `linear-gradient(180deg, ${top}, ${bottom})` }}>
      <div
        style={{
          position: 'absolute',
          left: frame.width * lightX - reach / 2,
          top: frame.height * lightY - reach / 2,
          width: reach,
          height: reach,
          opacity: light,
          transform: `translate(${drift * px(60)}px, 0) scale(${0.96 + light * 0.04})`,
          background: `radial-gradient(closest-side, ${fade(glow, 0.95)}, ${fade(glow, 0.42)} 38%, ${fade(glow, 0.12)} 68%, ${fade(glow, 0)})`,
        }}
      />
      <MotifShapes motif={motif} drift={drift} />
    </Layer>
  );
}

function MotifShapes({ motif, drift }: { motif: Motif; drift: number }) {
  const { width, height } = frame;
  const centre = { x: width / 2, y: height / 2 };
  const tint = theme.dark ? '#ffffff' : mix(theme.ground.bottom, (theme.ground.ink ?? theme.ink), 0.5);
  if (motif === 'plain') return null;
  if (motif === 'horizon')
    return (
      <div
        style={{
          position: 'absolute',
          inset: `${height * 0.7}px 0 0 0`,
          background: `linear-gradient(180deg, ${mix(theme.ground.bottom, theme.dark ? '#000000' : (theme.ground.ink ?? theme.ink), 0.1)}, ${theme.ground.bottom} 65%)`,
          opacity: 0.5,
        }}
      />
    );
  return (
    <svg width={width} height={height} style={{ position: 'absolute', inset: 0 }}>
      {motif === 'rings' &&
        [0.32, 0.52, 0.74, 0.98, 1.24].map((radius, i) => (
          <circle
            key={radius}
            cx={centre.x + drift * px(24) * (i - 2)}
            cy={centre.y}
            r={radius * Math.min(width, height) * (1 + drift * 0.015 * i)}
            fill="none"
            stroke={tint}
            strokeWidth={px(1.5)}
            opacity={0.1 - i * 0.012}
          />
        ))}
      {motif === 'blobs' && (
        <>
          <circle cx={width * 0.08 + drift * px(50)} cy={height * 0.88} r={px(330)} fill={theme.ground.glow} opacity={0.34} />
          <circle cx={width * 0.93 - drift * px(40)} cy={height * 0.12} r={px(250)} fill={theme.ground.glow} opacity={0.4} />
          <circle cx={width * 0.86} cy={height * 0.94 + drift * px(30)} r={px(120)} fill={theme.ground.top} opacity={0.6} />
        </>
      )}
      {motif === 'dots' &&
        Array.from({ length: 9 * 16 }, (_, i) => {
          const column = i % 16;
          const row = Math.floor(i / 16);
          return (
            <circle
              key={i}
              cx={((column + 0.5 + (row % 2) * 0.5) / 16) * width + drift * px(30)}
              cy={((row + 0.5) / 9) * height}
              r={px(5)}
              fill={tint}
              opacity={0.09}
            />
          );
        })}
      {motif === 'rays' &&
        Array.from({ length: 12 }, (_, i) => {
          const turn = ((i + drift * 0.5) / 12) * Math.PI * 2;
          const far = width + height;
          const point = (a: number) => `${centre.x + Math.cos(a) * far},${height * 0.62 + Math.sin(a) * far}`;
          return (
            <polygon
              key={i}
              points={`${centre.x},${height * 0.62} ${point(turn)} ${point(turn + Math.PI / 12)}`}
              fill={theme.ground.glow}
              opacity={0.22}
            />
          );
        })}
      {motif === 'beam' && (
        <>
          <defs>
            <linearGradient id="beam" x1="0" y1="0" x2="0" y2="1">
              <stop offset="0" stopColor={theme.ground.glow} stopOpacity={0.55} />
              <stop offset="1" stopColor={theme.ground.glow} stopOpacity={0} />
            </linearGradient>
          </defs>
          <polygon
            points={`${width * (0.44 + drift * 0.02)},0 ${width * (0.56 + drift * 0.02)},0 ${width * 0.86},${height} ${width * 0.14},${height}`}
            fill="url(#beam)"
            opacity={0.5}
          />
        </>
      )}
    </svg>
  );
}
