// Numbers that count down on the beat. Each has a Theatre object of its own: `enter` 0 to 1, `leave` 0 to 1; between them
// it stands still, whole and in the middle of the picture.
import { useTheatre } from '../hooks/useTheatre';
import { Layer } from '../koda/Stage';
import { fade } from '../lib/colour';
import { frame, px } from '../lib/frame';
import { fitText } from '../lib/type';
import { theme } from '../theme';
import { clamp, easeOutCubic, random } from '../utils/easing';

export interface CountdownProps {
  readonly numbers: readonly { readonly name: string; readonly text: string; readonly ground?: string; readonly ink: string }[];
  readonly manner: 'pop' | 'rise' | 'emerge';
  /** What stands at the end. */
  readonly finale: string;
  readonly heading?: string;
}

export function Countdown({ numbers, manner, finale, heading }: CountdownProps) {
  const { ring, burst, end } = useTheatre('Countdown', { ring: 0, burst: 0, end: 0 });
  return (
    <>
      {numbers.map((number) => (
        <NumberShape key={number.name} {...number} manner={manner} />
      ))}
      <Ring turn={ring} hidden={end} strong={manner !== 'pop'} ink={numbers[Math.min(Math.floor(ring), numbers.length - 1)]?.ink ?? theme.ink} />
      {burst > 0 && <Burst progress={burst} />}
      {end > 0 && <Finale text={finale} progress={end} />}
      {heading && (
        <div style={{ position: 'absolute', left: 0, right: 0, top: frame.margin * 0.7, textAlign: 'center', fontFamily: theme.type.text, fontWeight: 600, fontSize: px(38), color: theme.muted }}>
          {heading}
        </div>
      )}
    </>
  );
}

function NumberShape({ name, text, ground, ink, manner }: CountdownProps['numbers'][number] & { manner: CountdownProps['manner'] }) {
  const { enter, leave } = useTheatre(name, { enter: 0, leave: 0 });
  if (enter <= 0 || leave >= 1) return null;
  const face = { ...theme.type, tracking: -0.04 };
  const setting = fitText(text, face, { width: frame.width * (frame.shape === 'wide' ? 0.6 : 0.72), height: frame.height * 0.74, maxSize: px(manner === 'pop' ? 760 : 620), lineHeight: 1, maxLines: 1 });
  const scale = manner === 'pop' ? 0.35 + 0.65 * enter : manner === 'rise' ? 1 : 1.32 - 0.32 * enter;
  const shift = manner === 'rise' ? (1 - enter) * 0.55 : 0;
  const opacity = clamp(manner === 'pop' ? enter * 6 : enter * 1.2) * (1 - leave);
  const radius = Math.hypot(frame.width, frame.height) * 0.52 * easeOutCubic(clamp(enter * 1.15));
  return (
    <>
      {ground && (
        <svg width={frame.width} height={frame.height} style={{ position: 'absolute', inset: 0 }}>
          <circle cx={frame.width / 2} cy={frame.height / 2} r={radius} fill={ground} />
        </svg>
      )}
      <Layer
        style={{
          display: 'flex',
          alignItems: 'center',
          justifyContent: 'center',
          color: ink,
          fontFamily: face.family,
          fontWeight: face.weight,
          fontSize: setting.size,
          lineHeight: 1,
          letterSpacing: `${face.tracking}em`,
          fontVariantNumeric: 'lining-nums tabular-nums',
          opacity,
          transform: `translateY(${shift - leave * (manner === 'rise' ? 0.4 : 0)}em) scale(${scale + leave * (manner === 'pop' ? 0.5 : 0.12)})`,
        }}
      >
        {text}
      </Layer>
    </>
  );
}

/** A ring that empties once for every number. */
function Ring({ turn, hidden, strong, ink }: { turn: number; hidden: number; strong: boolean; ink: string }) {
  const radius = Math.min(frame.width, frame.height) * 0.43;
  const length = 2 * Math.PI * radius;
  const left = 1 - (turn - Math.floor(turn));
  const opacity = clamp(1 - hidden * 3);
  const tint = strong ? theme.accent : ink;
  return (
    <svg width={frame.width} height={frame.height} style={{ position: 'absolute', inset: 0, opacity }}>
      <g transform={`translate(${frame.width / 2} ${frame.height / 2}) rotate(-90)`} fill="none">
        <circle r={radius} stroke={fade(tint, 0.16)} strokeWidth={px(strong ? 4 : 14)} />
        <circle r={radius} stroke={tint} strokeWidth={px(strong ? 8 : 14)} strokeLinecap="round" strokeDasharray={`${length * left} ${length}`} opacity={left > 0.004 ? 0.95 : 0} />
      </g>
    </svg>
  );
}

/** Pieces that fly out of the middle, slow down and fall a little. */
function Burst({ progress }: { progress: number }) {
  const far = Math.hypot(frame.width, frame.height) * 0.56;
  const out = 1 - (1 - clamp(progress)) ** 3;
  return (
    <svg width={frame.width} height={frame.height} style={{ position: 'absolute', inset: 0 }}>
      {Array.from({ length: 150 }, (_, i) => {
        const angle = random(3, i) * Math.PI * 2;
        const reach = far * (0.25 + 0.75 * random(4, i)) * out;
        const size = px(18 + 34 * random(5, i)) * (1 - 0.35 * progress);
        const x = frame.width / 2 + Math.cos(angle) * reach;
        const y = frame.height / 2 + Math.sin(angle) * reach + progress * progress * px(180);
        const color = theme.colours[i % theme.colours.length];
        const turn = random(6, i) * 360 + progress * 420 * (random(7, i) - 0.5);
        return i % 3 === 0 ? (
          <circle key={i} cx={x} cy={y} r={size / 2} fill={color} />
        ) : (
          <rect key={i} x={-size / 2} y={-size / 3} width={size} height={size / 1.5} rx={px(3)} fill={color} transform={`translate(${x} ${y}) rotate(${turn})`} />
        );
      })}
    </svg>
  );
}

function Finale({ text, progress }: { text: string; progress: number }) {
  const setting = fitText(text, theme.type, { width: frame.width - frame.margin * 2, height: frame.height * 0.6, maxSize: px(400), maxLines: 2 });
  return (
    <Layer style={{ display: 'flex', alignItems: 'center', justifyContent: 'center', textAlign: 'center', color: theme.ink, fontFamily: theme.type.family, fontWeight: theme.type.weight, fontSize: setting.size, lineHeight: 1.1, letterSpacing: `${theme.type.tracking}em`, opacity: clamp(progress * 4), transform: `scale(${0.5 + 0.5 * progress})` }}>
      {setting.lines.map((line) => (
        <div key={line}>{theme.type.caps ? line.toLocaleUpperCase() : line}</div>
      ))}
    </Layer>
  );
}
