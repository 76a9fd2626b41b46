// A still sky of stars that twinkle a little: faint many, bright few.
import { useCurrentTime } from '../hooks/useCurrentTime';
import { frame, px } from '../lib/frame';
import { random } from '../utils/easing';

export function Starfield({ seed, count = 170 }: { seed: number; count?: number }) {
  const time = useCurrentTime();
  return (
    <svg width={frame.width} height={frame.height} style={{ position: 'absolute', inset: 0 }}>
      {Array.from({ length: count }, (_, i) => (
        <circle
          key={i}
          cx={random(seed, i, 1) * frame.width}
          cy={random(seed, i, 2) * frame.height}
          r={px(0.9 + 2.3 * random(seed, i, 3) ** 4)}
          fill={random(seed, i, 4) > 0.8 ? '#cfe0ff' : '#ffffff'}
          opacity={0.25 + 0.35 * random(seed, i, 5) + 0.25 * Math.sin(time * (0.5 + random(seed, i, 6)) + i)}
        />
      ))}
    </svg>
  );
}
