// Steps as cards on a path: side by side where the picture is wide, one below the other where it is not. Theatre moves
// each card's `enter` and `active`, and the path's `draw`.
import { useTheatre } from '../hooks/useTheatre';
import { fade, mix } from '../lib/colour';
import { frame, px } from '../lib/frame';
import { fitText } from '../lib/type';
import { theme } from '../theme';
import { clamp } from '../utils/easing';
import { headingHeight } from './Heading';

export interface Step {
  /** The Theatre object that moves its card. */
  readonly name: string;
  readonly label: string;
  readonly kicker: string;
  readonly color: string;
  readonly ink: string;
}

interface StepsProps {
  readonly heading: string;
  readonly steps: readonly Step[];
  readonly corner: number;
  readonly manner: 'pop' | 'rise' | 'emerge';
}

interface Place {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

function placesOf(heading: string, count: number): { places: Place[]; across: boolean } {
  const across = frame.shape === 'wide' && count <= 5;
  const top = headingHeight(heading) + px(across ? 110 : 20);
  const bottom = frame.height - frame.margin - px(frame.shape === 'tall' ? 120 : 30);
  const left = frame.margin;
  const width = frame.width - frame.margin * 2;
  const gap = px(across ? 34 : count > 5 ? 18 : 30);
  const columns = across ? count : frame.shape === 'wide' ? 2 : 1;
  const rows = Math.ceil(count / columns);
  const w = (width - gap * (columns - 1)) / columns;
  const h = Math.min((bottom - top - gap * (rows - 1)) / rows, px(across ? 440 : 300));
  const start = top + (bottom - top - (h * rows + gap * (rows - 1))) / 2;
  const places = Array.from({ length: count }, (_, i) => ({
    x: left + (i % columns) * (w + gap),
    y: start + Math.floor(i / columns) * (h + gap),
    width: w,
    height: h,
  }));
  return { places, across };
}

export function Steps({ heading, steps, corner, manner }: StepsProps) {
  const { draw } = useTheatre('Path', { draw: 0 });
  const { places, across } = placesOf(heading, steps.length);
  const first = places[0];
  const last = places[places.length - 1];
  if (!first || !last) return null;
  const y = first.y - px(64);
  const from = first.x + px(18);
  const to = last.x + px(18);
  return (
    <>
      {across && (
        <svg width={frame.width} height={frame.height} style={{ position: 'absolute', inset: 0 }}>
          <line x1={from} y1={y} x2={frame.width - frame.margin} y2={y} stroke={theme.ink} strokeWidth={px(3)} opacity={0.13} strokeLinecap="round" />
          <line x1={from} y1={y} x2={from + (frame.width - frame.margin - from) * clamp(draw)} y2={y} stroke={theme.accent} strokeWidth={px(6)} strokeLinecap="round" />
          {steps.map((step, i) => {
            const at = places[i]?.x ?? 0;
            const passed = clamp((from + (frame.width - frame.margin - from) * draw - at) / px(60));
            return <circle key={step.name} cx={at + px(18)} cy={y} r={px(10 + passed * 8)} fill={mix(mix(theme.ground.bottom, theme.ink, 0.25), theme.accent, passed)} stroke={theme.ground.top} strokeWidth={px(6)} />;
          })}
          <circle cx={to} cy={y} r={0} />
        </svg>
      )}
      {steps.map((step, i) => {
        const place = places[i];
        return place && <Card key={step.name} step={step} place={place} corner={corner} manner={manner} across={across} />;
      })}
    </>
  );
}

function Card({ step, place, corner, manner, across }: { step: Step; place: Place; corner: number; manner: StepsProps['manner']; across: boolean }) {
  const { enter, active } = useTheatre(step.name, { enter: 0, active: 0 });
  if (enter <= 0) return <div style={{ position: 'absolute', left: place.x, top: place.y, width: place.width, height: place.height, borderRadius: px(corner), background: fade(theme.ink, 0.035) }} />;
  const plain = theme.paper;
  const on = clamp(active);
  const ground = mix(plain, step.color, on);
  const ink = on > 0.5 ? step.ink : theme.paperInk;
  const kicker = on > 0.5 ? fade(step.ink, 0.75) : step.color;
  const pad = across ? px(44) : Math.min(px(44), place.height * 0.2);
  const setting = fitText(step.label, { ...theme.type, tracking: Math.min(theme.type.tracking, 0.01) }, {
    width: place.width - pad * 2 - (across ? 0 : px(150)),
    height: across ? place.height * 0.5 : place.height - pad,
    maxSize: px(across ? 76 : 64),
    lineHeight: 1.12,
    maxLines: across ? 4 : 2,
  });
  const shift = manner === 'emerge' ? px(30) : px(120);
  return (
    <div
      style={{
        position: 'absolute',
        left: place.x,
        top: place.y,
        width: place.width,
        height: place.height,
        padding: pad,
        display: 'flex',
        flexDirection: across ? 'column' : 'row',
        alignItems: across ? 'flex-start' : 'center',
        justifyContent: across ? 'space-between' : 'flex-start',
        gap: px(36),
        borderRadius: px(corner),
        background: ground,
        boxShadow: `0 ${px(18)}px ${px(44)}px ${fade(theme.shade, theme.dark ? 0.4 : 0.13)}`,
        opacity: clamp(enter * 3),
        transform: across
          ? `translateY(${(1 - enter) * shift}px) ${manner === 'pop' ? `rotate(${(1 - enter) * -5}deg) scale(${0.8 + 0.2 * enter})` : ''}`
          : `translateX(${(1 - enter) * shift}px)`,
      }}
    >
      <div style={{ minWidth: across ? 0 : px(110), fontFamily: theme.type.text, fontWeight: 700, fontSize: px(across ? 44 : 46), letterSpacing: '0.01em', fontVariantNumeric: 'tabular-nums', color: kicker }}>
        {step.kicker}
      </div>
      <div style={{ color: ink, fontFamily: theme.type.family, fontWeight: theme.type.weight, fontSize: setting.size, lineHeight: 1.12, letterSpacing: `${Math.min(theme.type.tracking, 0.01)}em` }}>
        {setting.lines.map((line) => (
          <div key={line} style={{ whiteSpace: 'pre' }}>
            {line}
          </div>
        ))}
      </div>
    </div>
  );
}
