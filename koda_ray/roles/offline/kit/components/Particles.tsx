// Drifting particles, each a function of time and its own number: near ones larger, quicker and softer than far ones.
import { useLayoutEffect, useMemo, useRef } from 'react';
import { useCurrentTime } from '../hooks/useCurrentTime';
import { useTheatre } from '../hooks/useTheatre';
import { useScale } from '../koda/PageFrame';
import { fade } from '../lib/colour';
import { frame, px } from '../lib/frame';
import { random, smoothstep } from '../utils/easing';

export type ParticleKind = 'dust' | 'snow' | 'rain' | 'stars' | 'bubbles' | 'embers' | 'fireflies' | 'petals' | 'confetti';

export interface ParticlesProps {
  readonly kind: ParticleKind;
  readonly colors: readonly string[];
  readonly count: number;
  /** Pace relative to usual. */
  readonly speed?: number;
  readonly size?: number;
  readonly seed?: number;
  readonly opacity?: number;
}

const TURN = Math.PI * 2;

/** A soft round dot of one colour, drawn once. */
function dot(color: string, softness: number): HTMLCanvasElement {
  const size = 64;
  const canvas = document.createElement('canvas');
  canvas.width = canvas.height = size;
  const pen = canvas.getContext('2d');
  if (!pen) return canvas;
  const gradient = pen.createRadialGradient(32, 32, 0, 32, 32, 32);
  gradient.addColorStop(0, fade(color, 1));
  gradient.addColorStop(1 - softness, fade(color, softness > 0.5 ? 0.55 : 1));
  gradient.addColorStop(1 - softness * 0.35, fade(color, softness * 0.12));
  gradient.addColorStop(1, fade(color, 0));
  pen.fillStyle = gradient;
  pen.fillRect(0, 0, size, size);
  return canvas;
}

export function Particles({ kind, colors, count, speed = 1, size = 1, seed = 1, opacity = 1 }: ParticlesProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const time = useCurrentTime();
  const scale = useScale();
  const { density, wind } = useTheatre('Particles', { density: 1, wind: 0 });
  const dots = useMemo(() => colors.map((color) => dot(color, kind === 'snow' || kind === 'stars' ? 0.35 : 0.8)), [colors, kind]);
  const width = Math.round(frame.width * scale);
  const height = Math.round(frame.height * scale);
  useLayoutEffect(() => {
    const pen = canvas.current?.getContext('2d');
    if (!pen) return;
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.setTransform(width / frame.width, 0, 0, height / frame.height, 0, 0);
    pen.globalCompositeOperation = kind === 'embers' || kind === 'fireflies' || kind === 'stars' ? 'lighter' : 'source-over';
    const shown = Math.round(count * Math.max(0, Math.min(1, density)));
    for (let i = 0; i < shown; i++) {
      const depth = random(seed, i, 1) ** 1.6;
      const one: Drawn = { i, seed, depth, t: time * speed, wind, size };
      pen.globalAlpha = opacity;
      draw(kind, pen, one, dots[i % dots.length], colors[i % colors.length] ?? '#ffffff');
    }
  });
  return <canvas ref={canvas} width={width} height={height} style={{ position: 'absolute', inset: 0, width: frame.width, height: frame.height }} />;
}

interface Drawn {
  readonly i: number;
  readonly seed: number;
  /** 0 far away to 1 near. */
  readonly depth: number;
  readonly t: number;
  readonly wind: number;
  readonly size: number;
}

/** A position that runs through the picture and comes in again on the other side. */
function wrap(value: number, length: number, rim: number): number {
  const whole = length + rim * 2;
  return ((((value + rim) % whole) + whole) % whole) - rim;
}

function draw(kind: ParticleKind, pen: CanvasRenderingContext2D, one: Drawn, sprite: HTMLCanvasElement | undefined, color: string): void {
  const { i, seed, depth, t, wind, size } = one;
  const { width, height } = frame;
  const a = random(seed, i, 2);
  const b = random(seed, i, 3);
  const c = random(seed, i, 4);
  const stamp = (x: number, y: number, radius: number): void => {
    if (sprite) pen.drawImage(sprite, x - radius, y - radius, radius * 2, radius * 2);
  };
  switch (kind) {
    case 'dust': {
      const x = wrap(a * width + t * px(10 + 26 * depth) * (c > 0.3 ? 1 : -0.6) + wind * px(200), width, 60);
      const y = wrap(b * height - t * px(6 + 14 * depth) + Math.sin(t * 0.5 + a * TURN) * px(24), height, 60);
      pen.globalAlpha *= (0.2 + 0.65 * (1 - depth)) * (0.6 + 0.4 * Math.sin(t * (0.7 + c) + b * TURN));
      return stamp(x, y, px(3.4 + 4 * c + depth * depth * 30) * size);
    }
    case 'snow': {
      const sway = Math.sin(t * (0.6 + c * 0.7) + a * TURN) * px(14 + depth * 34);
      const x = wrap(a * width + sway + t * px(14) * (0.4 + depth) + wind * px(400) * (0.3 + depth), width, 50);
      const y = wrap(b * height + t * px(58 + depth * 150), height, 50);
      pen.globalAlpha *= depth > 0.82 ? 0.55 : 0.92 - depth * 0.2;
      return stamp(x, y, px(4 + depth * 19) * size);
    }
    case 'rain': {
      const length = px(34 + depth * 90);
      const fall = t * px(1150 + depth * 950);
      const y = wrap(b * height + fall, height, length);
      const x = wrap(a * width - fall * 0.14 - wind * px(200), width, 80);
      pen.strokeStyle = color;
      pen.lineWidth = px(1 + depth * 1.8) * size;
      pen.lineCap = 'round';
      pen.globalAlpha *= 0.16 + depth * 0.42;
      pen.beginPath();
      pen.moveTo(x, y);
      pen.lineTo(x + length * 0.14, y - length);
      pen.stroke();
      return;
    }
    case 'stars': {
      // flying through a field: each star comes from afar and passes by
      const life = (a + t * 0.09) % 1;
      const z = 1.02 - life;
      const angle = b * TURN;
      const spread = (0.08 + c * 0.92) * Math.hypot(width, height) * 0.16;
      const near = Math.min(9, 1 / z);
      const x = width / 2 + Math.cos(angle) * spread * near;
      const y = height / 2 + Math.sin(angle) * spread * near;
      pen.globalAlpha *= smoothstep(0, 0.25, life) * (0.55 + 0.45 * Math.sin(t * 3 * c + angle));
      stamp(x, y, px(2 + near * 1.5) * size);
      if (near < 2.2) return;
      pen.strokeStyle = color;
      pen.lineWidth = px(near * 0.6);
      pen.globalAlpha *= 0.4;
      pen.beginPath();
      pen.moveTo(x, y);
      pen.lineTo(x - Math.cos(angle) * px(near * near * 3.2), y - Math.sin(angle) * px(near * near * 3.2));
      pen.stroke();
      return;
    }
    case 'bubbles': {
      const radius = px(16 + depth * 74) * size;
      const x = wrap(a * width + Math.sin(t * (0.7 + c) + b * TURN) * px(40) + wind * px(200), width, radius);
      const y = wrap(b * height - t * px(70 + depth * 120), height, radius);
      const shine = pen.createRadialGradient(x - radius * 0.3, y - radius * 0.35, radius * 0.1, x, y, radius);
      shine.addColorStop(0, fade('#ffffff', 0.35));
      shine.addColorStop(0.55, fade(color, 0.12));
      shine.addColorStop(0.92, fade(color, 0.5));
      shine.addColorStop(1, fade('#ffffff', 0.65));
      pen.fillStyle = shine;
      pen.beginPath();
      pen.arc(x, y, radius, 0, TURN);
      pen.fill();
      pen.fillStyle = fade('#ffffff', 0.85);
      pen.beginPath();
      pen.ellipse(x - radius * 0.38, y - radius * 0.42, radius * 0.17, radius * 0.1, -0.7, 0, TURN);
      pen.fill();
      return;
    }
    case 'embers': {
      const life = (b + t * (0.1 + 0.12 * c)) % 1;
      const x = width * (0.5 + (a - 0.5) * (0.5 + life * 0.9)) + Math.sin(t * 1.6 + a * 40 + life * 6) * px(40 + 50 * depth) + wind * px(300) * life;
      const y = height * (1.04 - life * 1.12);
      pen.globalAlpha *= smoothstep(0, 0.08, life) * (1 - life) ** 1.2 * (0.7 + 0.3 * Math.sin(t * 14 * (0.5 + c) + a * TURN));
      return stamp(x, y, px(9 + depth * 26) * size);
    }
    case 'fireflies': {
      const x = wrap(a * width + Math.sin(t * 0.5 + b * TURN) * px(120) + Math.sin(t * 1.1 + c * TURN) * px(50), width, 60);
      const y = height * (0.16 + 0.74 * b) + Math.cos(t * 0.6 + a * TURN) * px(80);
      pen.globalAlpha *= Math.max(0.05, Math.sin(t * (0.8 + c) + a * TURN)) ** 2;
      stamp(x, y, px(14 + depth * 40) * size);
      return stamp(x, y, px(5 + depth * 6) * size);
    }
    case 'petals': {
      const radius = px(12 + depth * 24) * size;
      const x = wrap(a * width + t * px(46 + depth * 80) + Math.sin(t * (0.8 + c) + a * TURN) * px(60) + wind * px(400), width, 60);
      const y = wrap(b * height + t * px(52 + depth * 80), height, 60);
      const turn = t * (0.7 + c * 1.3) + b * TURN;
      pen.save();
      pen.translate(x, y);
      pen.rotate(turn);
      pen.scale(1, 0.28 + 0.72 * Math.abs(Math.cos(t * (1 + c) + a * TURN)));
      pen.globalAlpha *= 0.95 - depth * 0.25;
      pen.fillStyle = color;
      pen.beginPath();
      pen.moveTo(0, radius);
      pen.bezierCurveTo(radius * 1.1, radius * 0.3, radius * 0.8, -radius, radius * 0.12, -radius * 0.86);
      pen.lineTo(0, -radius * 0.66);
      pen.lineTo(-radius * 0.12, -radius * 0.86);
      pen.bezierCurveTo(-radius * 0.8, -radius, -radius * 1.1, radius * 0.3, 0, radius);
      pen.fill();
      pen.restore();
      return;
    }
    case 'confetti': {
      const half = px(13 + depth * 15) * size;
      const x = wrap(a * width + Math.sin(t * (1 + c * 1.4) + b * TURN) * px(54) + wind * px(300), width, 40);
      const y = wrap(b * height + t * px(150 + depth * 190 + c * 60), height, 40);
      pen.save();
      pen.translate(x, y);
      pen.rotate(t * (c - 0.5) * 6 + a * TURN);
      pen.scale(1, Math.cos(t * (3 + c * 4) + b * TURN));
      pen.fillStyle = color;
      if (i % 3 === 0) {
        pen.beginPath();
        pen.arc(0, 0, half * 0.8, 0, TURN);
        pen.fill();
      } else pen.fillRect(-half, -half * 0.6, half * 2, half * 1.2);
      pen.restore();
    }
  }
}
