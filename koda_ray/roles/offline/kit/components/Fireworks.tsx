// Fireworks over a dark horizon: shells climb, burst, and fall under drag and gravity. Every spark is a function of time.
import { useLayoutEffect, useMemo, useRef } from 'react';
import { useCurrentTime } from '../hooks/useCurrentTime';
import { useTheatre } from '../hooks/useTheatre';
import { useScale } from '../koda/PageFrame';
import { fade, lighten } from '../lib/colour';
import { frame, px } from '../lib/frame';
import { theme } from '../theme';
import { clamp, noise1D, random } from '../utils/easing';

export interface Shell {
  /** When it bursts, in seconds. */
  readonly at: number;
  /** Where, in shares of the picture. */
  readonly x: number;
  readonly y: number;
  readonly size: number;
  readonly color: string;
  readonly kind: 'peony' | 'willow' | 'ring' | 'palm';
}

export interface FireworksProps {
  readonly shells: readonly Shell[];
  readonly pace: number;
  readonly seed: number;
}

const RISE_S = 0.9;
const LIFE_S = { peony: 2.1, willow: 3.2, ring: 1.9, palm: 2.5 } as const;
const SPARKS = { peony: 170, willow: 130, ring: 90, palm: 108 } as const;

function glowDot(color: string): HTMLCanvasElement {
  const canvas = document.createElement('canvas');
  canvas.width = canvas.height = 48;
  const pen = canvas.getContext('2d');
  if (!pen) return canvas;
  const gradient = pen.createRadialGradient(24, 24, 0, 24, 24, 24);
  gradient.addColorStop(0, '#ffffff');
  gradient.addColorStop(0.16, lighten(color, 0.55));
  gradient.addColorStop(0.38, fade(color, 0.55));
  gradient.addColorStop(1, fade(color, 0));
  pen.fillStyle = gradient;
  pen.fillRect(0, 0, 48, 48);
  return canvas;
}

export function Fireworks({ shells, pace, seed }: FireworksProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const time = useCurrentTime() * pace;
  const { flash } = useTheatre('Sky', { flash: 1 });
  const scale = useScale();
  const width = Math.round(frame.width * scale);
  const height = Math.round(frame.height * scale);
  const dots = useMemo(() => new Map([...new Set(shells.map((shell) => shell.color))].map((color) => [color, glowDot(color)])), [shells]);
  useLayoutEffect(() => {
    const pen = canvas.current?.getContext('2d');
    if (!pen) return;
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.globalCompositeOperation = 'source-over';
    pen.globalAlpha = 1;
    pen.clearRect(0, 0, width, height);
    pen.setTransform(width / frame.width, 0, 0, height / frame.height, 0, 0);
    pen.globalCompositeOperation = 'lighter';
    shells.forEach((shell, i) => {
      const dot = dots.get(shell.color);
      if (dot) drawShell(pen, shell, dot, time - shell.at, seed + i * 101, flash);
    });
  });
  return (
    <>
      <Stars seed={seed} time={time} />
      <canvas ref={canvas} width={width} height={height} style={{ position: 'absolute', inset: 0, width: frame.width, height: frame.height }} />
      <Horizon seed={seed} />
    </>
  );
}

function drawShell(pen: CanvasRenderingContext2D, shell: Shell, dot: HTMLCanvasElement, since: number, seed: number, flash: number): void {
  const x = shell.x * frame.width;
  const y = shell.y * frame.height;
  const stamp = (sx: number, sy: number, r: number, alpha: number): void => {
    if (alpha <= 0.01) return;
    pen.globalAlpha = Math.min(1, alpha);
    pen.drawImage(dot, sx - r, sy - r, r * 2, r * 2);
  };
  if (since < 0) {
    const climb = 1 + since / RISE_S;
    if (climb <= 0) return;
    // a thrown thing: quick at first, slow at the top
    for (let step = 0; step < 14; step++) {
      const u = climb - step * 0.02;
      if (u <= 0) break;
      const rise = 1 - (1 - u) ** 2;
      stamp(x + Math.sin(u * 9 + seed) * px(5), frame.height * 0.98 + (y - frame.height * 0.98) * rise, px(9 - step * 0.45), 0.75 * (1 - step / 14) * clamp(u * 4));
    }
    return;
  }
  const life = LIFE_S[shell.kind];
  if (since > life) return;
  const age = since / life;
  const burst = Math.exp(-since * 7);
  stamp(x, y, px(520) * shell.size * (0.6 + burst), (burst * 0.8 + 0.16 * (1 - age)) * flash);
  const drag = shell.kind === 'willow' ? 1.5 : 2.3;
  const speed = px(shell.kind === 'willow' ? 620 : 900) * shell.size;
  const gravity = px(shell.kind === 'willow' ? 150 : shell.kind === 'palm' ? 130 : 80);
  const count = SPARKS[shell.kind];
  const steps = shell.kind === 'willow' || shell.kind === 'palm' ? 9 : 7;
  for (let i = 0; i < count; i++) {
    const angle = shell.kind === 'palm' ? (Math.floor(random(seed, i % 12) * 60) / 60) * Math.PI * 2 : random(seed, i, 1) * Math.PI * 2;
    const ball = shell.kind === 'ring' ? 0.94 + 0.06 * random(seed, i, 2) : Math.sqrt(1 - (random(seed, i, 2) * 2 - 1) ** 2) * (0.82 + 0.18 * random(seed, i, 3));
    const flat = shell.kind === 'ring' ? 0.42 : 1;
    const away = speed * ball * (shell.kind === 'palm' ? 0.5 + 0.5 * random(seed, i, 4) : 1);
    const glow = (1 - age) ** (shell.kind === 'willow' ? 0.8 : 1.05);
    const twinkle = age > 0.45 ? 0.55 + 0.45 * Math.sin(since * 34 + i * 2.4) : 1;
    const at = (t: number): [number, number] => {
      const way = (1 - Math.exp(-drag * t)) / drag;
      return [x + Math.cos(angle) * away * way, y + Math.sin(angle) * away * way * flat + gravity * t * t];
    };
    let [fromX, fromY] = at(since);
    stamp(fromX, fromY, px(13) * (0.6 + 0.4 * glow), glow * twinkle);
    // the tail: where the spark has been, thinner and fainter with age
    pen.strokeStyle = shell.color;
    pen.lineCap = 'round';
    for (let step = 1; step < steps; step++) {
      const t = since - step * 0.05;
      if (t < 0) break;
      const [toX, toY] = at(t);
      pen.globalAlpha = Math.min(1, glow * twinkle * 0.75 * (1 - step / steps));
      pen.lineWidth = px(4.2 * (1 - (step / steps) * 0.7));
      pen.beginPath();
      pen.moveTo(fromX, fromY);
      pen.lineTo(toX, toY);
      pen.stroke();
      [fromX, fromY] = [toX, toY];
    }
  }
}

function Stars({ seed, time }: { seed: number; time: number }) {
  return (
    <svg width={frame.width} height={frame.height} style={{ position: 'absolute', inset: 0 }}>
      {Array.from({ length: 90 }, (_, i) => (
        <circle key={i} cx={random(seed, i, 5) * frame.width} cy={random(seed, i, 6) * frame.height * 0.7} r={px(0.8 + 1.8 * random(seed, i, 7) ** 3)} fill="#ffffff" opacity={0.25 + 0.3 * Math.sin(time * (0.6 + random(seed, i, 8)) + i) ** 2} />
      ))}
    </svg>
  );
}

/** Hills and a town's lights at the lower edge. */
function Horizon({ seed }: { seed: number }) {
  const line = useMemo(() => {
    const points: string[] = [];
    for (let x = 0; x <= frame.width; x += px(16)) {
      const u = x / px(360);
      points.push(`${x.toFixed(1)},${(frame.height * 0.925 - px(80) * (0.4 + 0.5 * noise1D(u, seed) + 0.14 * noise1D(u * 4, seed + 3))).toFixed(1)}`);
    }
    return `M 0,${frame.height} L ${points.join(' L ')} L ${frame.width},${frame.height} Z`;
  }, [seed]);
  return (
    <svg width={frame.width} height={frame.height} style={{ position: 'absolute', inset: 0 }}>
      <path d={line} fill={theme.shade} />
      {Array.from({ length: 60 }, (_, i) => (
        <rect key={i} x={random(seed, i, 9) * frame.width} y={frame.height * (0.955 + 0.035 * random(seed, i, 10))} width={px(3)} height={px(3)} fill="#ffd9a0" opacity={0.35 + 0.5 * random(seed, i, 11)} />
      ))}
    </svg>
  );
}
