// The one thing the picture is about, drawn or as an emoji, with its trail and its shadow. Theatre moves it.
import { useTheatre } from '../hooks/useTheatre';
import { darken, fade, lighten } from '../lib/colour';
import { frame, px } from '../lib/frame';
import { theme } from '../theme';
import { clamp } from '../utils/easing';

export interface HeroProps {
  /** The Theatre object that moves it. */
  readonly name: string;
  /** A drawing's name or an emoji. */
  readonly look: string;
  readonly size: number;
  readonly color: string;
  /** Drawn looking the other way. */
  readonly mirrored?: boolean;
  readonly trail?: readonly (readonly [number, number])[];
  readonly shadow?: boolean;
  readonly flame?: boolean;
}

export function Hero({ name, look, size, color, mirrored = false, trail, shadow = false, flame = false }: HeroProps) {
  const { x, y, turn, scale, squash, sway, along } = useTheatre(name, { x: 0.5, y: 0.5, turn: 0, scale: 1, squash: 1, sway: 0, along: 0 });
  const side = px(size);
  const left = x * frame.width;
  const top = y * frame.height;
  return (
    <>
      {trail && <Trail points={trail} along={along} />}
      {shadow && (
        <div
          style={{
            position: 'absolute',
            left: left - side * 0.42,
            top: frame.height * 0.83,
            width: side * 0.84,
            height: side * 0.14,
            background: `radial-gradient(closest-side, ${fade(theme.shade, 0.5)}, ${fade(theme.shade, 0)})`,
            transform: `scale(${1.2 - clamp((0.83 - y) * 1.1)})`,
            opacity: clamp(scale),
          }}
        />
      )}
      <div
        style={{
          position: 'absolute',
          left: left - side / 2,
          top: top - side / 2 + sway * px(18),
          width: side,
          height: side,
          transform: `rotate(${turn}deg) scale(${(scale / Math.sqrt(squash)) * (mirrored ? -1 : 1)}, ${scale * squash})`,
          display: 'flex',
          alignItems: 'center',
          justifyContent: 'center',
          fontSize: side * 0.8,
          lineHeight: 1,
        }}
      >
        <Drawing look={look} color={color} flame={flame} flicker={sway} />
      </div>
    </>
  );
}

/** A dashed line behind the thing, as far as it has come. */
function Trail({ points, along }: { points: NonNullable<HeroProps['trail']>; along: number }) {
  const shown = points.slice(0, Math.max(2, Math.floor(points.length * clamp(along))));
  const path = shown.map(([x, y]) => `${(x * frame.width).toFixed(1)},${(y * frame.height).toFixed(1)}`).join(' L ');
  return (
    <svg width={frame.width} height={frame.height} style={{ position: 'absolute', inset: 0 }}>
      <path d={`M ${path}`} fill="none" stroke={lighten(theme.ground.glow, 0.7)} strokeWidth={px(6)} strokeLinecap="round" strokeDasharray={`${px(4)} ${px(26)}`} opacity={0.85} />
    </svg>
  );
}

function Drawing({ look, color, flame, flicker }: { look: string; color: string; flame: boolean; flicker: number }) {
  const box = { viewBox: '0 0 200 200', style: { width: '100%', height: '100%', overflow: 'visible' } } as const;
  const light = lighten(color, 0.75);
  if (look === 'paper-plane')
    return (
      <svg {...box}>
        <polygon points="196,86 8,22 62,98" fill="#ffffff" />
        <polygon points="196,86 62,98 74,160" fill={lighten(color, 0.72)} />
        <polygon points="196,86 62,98 8,150" fill={lighten(color, 0.9)} />
        <polygon points="62,98 74,160 100,116" fill={lighten(color, 0.42)} />
        <path d="M8 22 L196 86 L62 98" fill="none" stroke={fade(color, 0.22)} strokeWidth="2" strokeLinejoin="round" />
      </svg>
    );
  if (look === 'rocket')
    return (
      <svg {...box}>
        {flame && (
          <>
            <path d={`M78 152 Q100 ${226 + flicker * 22} 122 152 Z`} fill="#ff8a2c" />
            <path d={`M87 152 Q100 ${194 + flicker * 14} 113 152 Z`} fill="#ffe08a" />
          </>
        )}
        <path d="M64 112 L36 156 L70 146 Z" fill={color} />
        <path d="M136 112 L164 156 L130 146 Z" fill={darken(color, 0.14)} />
        <path d="M100 6 C140 46 144 104 130 150 H70 C56 104 60 46 100 6 Z" fill="#ffffff" />
        <path d="M100 6 C140 46 144 104 130 150 H104 C118 104 118 46 100 6 Z" fill={light} />
        <path d="M100 6 C117 22 127 42 131 64 H69 C73 42 83 22 100 6 Z" fill={color} />
        <circle cx="100" cy="92" r="19" fill={darken(color, 0.25)} />
        <circle cx="100" cy="92" r="13" fill="#bfe9ff" />
        <rect x="76" y="146" width="48" height="11" rx="5" fill={darken(color, 0.35)} />
      </svg>
    );
  if (look === 'balloon')
    return (
      <svg {...box}>
        <path d={`M100 134 C${96 + flicker * 6} 152 ${104 - flicker * 6} 170 100 198`} fill="none" stroke={fade(theme.ink, 0.5)} strokeWidth="2.5" />
        <path d="M92 138 L108 138 L100 128 Z" fill={darken(color, 0.2)} />
        <ellipse cx="100" cy="70" rx="54" ry="64" fill={color} />
        <path d="M100 6 A54 64 0 0 1 100 134 A34 64 0 0 0 100 6" fill={darken(color, 0.12)} />
        <ellipse cx="78" cy="44" rx="12" ry="20" fill="#ffffff" opacity="0.55" transform="rotate(18 78 44)" />
      </svg>
    );
  if (look === 'hot-air-balloon')
    return (
      <svg {...box}>
        <path d="M78 140 L86 168 M122 140 L114 168" stroke={fade(theme.ink, 0.6)} strokeWidth="3" />
        <path d="M100 6 C152 6 172 54 158 92 C148 120 128 132 122 144 H78 C72 132 52 120 42 92 C28 54 48 6 100 6 Z" fill={color} />
        <path d="M100 6 C118 6 130 54 124 92 C120 120 114 132 112 144 H88 C86 132 80 120 76 92 C70 54 82 6 100 6 Z" fill={light} />
        <path d="M100 6 C152 6 172 54 158 92 C148 120 128 132 122 144 H112 C114 132 140 100 142 70 C144 40 126 12 100 6 Z" fill={darken(color, 0.14)} />
        <rect x="84" y="166" width="32" height="26" rx="6" fill={darken(theme.accent, 0.5)} />
        <rect x="84" y="166" width="32" height="8" rx="4" fill={darken(theme.accent, 0.3)} />
      </svg>
    );
  if (look === 'boat')
    return (
      <svg {...box}>
        <path d="M96 20 L96 136 L28 136 Z" fill="#ffffff" />
        <path d="M106 42 L106 136 L160 136 Z" fill={light} />
        <rect x="97" y="12" width="7" height="134" rx="3" fill={darken(color, 0.45)} />
        <path d="M14 146 H186 C180 172 160 184 140 184 H58 C36 184 20 170 14 146 Z" fill={color} />
        <path d="M14 146 H186 L184 156 H17 Z" fill={darken(color, 0.18)} />
      </svg>
    );
  return <span>{look}</span>;
}
