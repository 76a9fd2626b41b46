// A mark that draws itself, moves aside, and lets the name out from behind it. Theatre moves `Mark` and `Wordmark`.
import { useTheatre } from '../hooks/useTheatre';
import { Layer } from '../koda/Stage';
import { fade, lighten } from '../lib/colour';
import { frame, px } from '../lib/frame';
import { stagger } from '../lib/stagger';
import { fitText, letters, textWidth } from '../lib/type';
import { theme } from '../theme';
import { clamp, easeOutBack, easeOutCubic, easeOutQuint } from '../utils/easing';

export interface LogoProps {
  readonly name: string;
  readonly tagline?: string;
  /** A picture instead of the drawn mark. */
  readonly image?: string;
  readonly mark: 'arch' | 'orbit' | 'petals' | 'stack' | 'letter';
  readonly manner: 'pop' | 'rise' | 'emerge';
}

export function Logo({ name, tagline, image, mark, manner }: LogoProps) {
  const { draw, fill, turn, scale, aside } = useTheatre('Mark', { draw: 1, fill: 1, turn: 0, scale: 1, aside: 1 });
  const { reveal, line, breathe } = useTheatre('Wordmark', { reveal: 1, line: 1, breathe: 0 });
  const stacked = frame.shape === 'tall' || name.length > 16;
  const shown = theme.type.caps ? name.toLocaleUpperCase() : name;
  const size = px(stacked ? 300 : 250);
  const setting = fitText(shown, theme.type, {
    width: frame.width - frame.margin * 2 - (stacked ? 0 : size * 1.35),
    height: px(stacked ? 260 : 240),
    maxSize: px(stacked ? 170 : 210),
    lineHeight: 1.1,
    maxLines: stacked ? 2 : 1,
  });
  const wordWidth = Math.max(...setting.lines.map((text) => textWidth(text, setting.size, theme.type)));
  const gap = size * 0.3;
  const lockup = stacked ? wordWidth : size + gap + wordWidth;
  const centreX = frame.width / 2;
  const centreY = frame.height / 2 - (tagline ? px(30) : 0);
  const wordHeight = setting.lines.length * setting.size * 1.1;
  const stackHeight = size + px(56) + wordHeight;
  const settled = stacked ? { x: centreX, y: centreY - stackHeight / 2 + size / 2 } : { x: centreX - lockup / 2 + size / 2, y: centreY };
  const at = { x: centreX + (settled.x - centreX) * aside, y: centreY + (settled.y - centreY) * aside };
  const wordLeft = stacked ? centreX - wordWidth / 2 : centreX - lockup / 2 + size + gap;
  const wordTop = stacked ? centreY - stackHeight / 2 + size + px(56) : centreY - wordHeight / 2;
  const all = setting.lines.reduce((n, text) => n + letters(text).length, 0);
  let index = 0;
  return (
    <Layer style={{ transform: `scale(${1 + breathe * 0.02})` }}>
      <div
        style={{
          position: 'absolute',
          left: at.x - size / 2,
          top: at.y - size / 2,
          width: size,
          height: size,
          transform: `rotate(${turn}deg) scale(${scale * (1 + (1 - aside) * 0.35)})`,
        }}
      >
        {image ? (
          <img src={image} alt="" style={{ width: '100%', height: '100%', objectFit: 'contain', opacity: clamp(fill), clipPath: `circle(${clamp(draw) * 72}% at 50% 50%)` }} />
        ) : (
          <MarkShape kind={mark} draw={clamp(draw)} fill={clamp(fill)} initial={letters(shown)[0] ?? ''} />
        )}
      </div>
      <div
        style={{
          position: 'absolute',
          left: wordLeft - px(20),
          top: wordTop - px(10),
          width: wordWidth + px(60),
          padding: `${px(10)}px ${px(20)}px ${px(34)}px`,
          overflow: manner === 'rise' ? 'hidden' : 'visible',
          color: theme.ink,
          fontFamily: theme.type.family,
          fontWeight: theme.type.weight,
          fontSize: setting.size,
          lineHeight: 1.1,
          letterSpacing: `${theme.type.tracking}em`,
          textAlign: stacked ? 'center' : 'left',
        }}
      >
        {setting.lines.map((text, row) => (
          <div key={row} style={{ whiteSpace: 'pre' }}>
            {letters(text).map((letter, i) => {
              const p = stagger(reveal, index++, all, manner === 'pop' ? 0.7 : 0.84);
              const style =
                manner === 'pop'
                  ? { opacity: p > 0 ? 1 : 0, transform: `translateY(${(1 - easeOutBack(p)) * 0.7}em) scale(${easeOutBack(p)})` }
                  : manner === 'rise'
                    ? { transform: `translateX(${(1 - easeOutQuint(p)) * -0.6}em) translateY(${(1 - easeOutQuint(p)) * 1.2}em)` }
                    : { opacity: easeOutCubic(p), transform: `translateX(${(1 - easeOutCubic(p)) * -0.25}em)`, textShadow: theme.dark ? `0 0 0.35em ${fade(theme.accent, 0.35)}` : undefined };
              return (
                <span key={i} style={{ display: 'inline-block', whiteSpace: 'pre', ...style }}>
                  {letter}
                </span>
              );
            })}
          </div>
        ))}
      </div>
      {tagline && (
        <div
          style={{
            position: 'absolute',
            left: frame.margin,
            right: frame.margin,
            top: (stacked ? wordTop + wordHeight : centreY + size / 2) + px(54),
            textAlign: 'center',
            fontFamily: theme.type.text,
            fontWeight: 500,
            fontSize: px(38) * (theme.aside?.scale ?? 1),
            letterSpacing: '0.02em',
            color: theme.aside?.color ?? theme.muted,
            opacity: clamp(line),
            transform: `translateY(${(1 - line) * px(22)}px)`,
          }}
        >
          {tagline}
        </div>
      )}
    </Layer>
  );
}

/** The drawn marks, in a square of 100. Strokes run with `draw`, surfaces come with `fill`. */
function MarkShape({ kind, draw, fill, initial }: { kind: LogoProps['mark']; draw: number; fill: number; initial: string }) {
  const main = theme.accent;
  const second = theme.colours[1] ?? lighten(main, 0.3);
  const third = theme.colours[2] ?? lighten(main, 0.5);
  const stroke = { fill: 'none', stroke: main, strokeWidth: 3, strokeLinecap: 'round', pathLength: 1, strokeDasharray: `${draw} 1.2`, opacity: draw > 0.002 ? 1 - fill * 0.999 : 0 } as const;
  return (
    <svg viewBox="0 0 100 100" style={{ width: '100%', height: '100%', overflow: 'visible' }}>
      {kind === 'arch' && (
        <>
          <path d="M8 92 V50 A42 42 0 0 1 92 50 V92 H66 V52 A16 16 0 0 0 34 52 V92 Z" fill={main} opacity={fill} />
          <circle cx="50" cy="78" r={14 * fill} fill={second} />
          <path d="M8 92 V50 A42 42 0 0 1 92 50 V92 H66 V52 A16 16 0 0 0 34 52 V92 Z" {...stroke} />
        </>
      )}
      {kind === 'orbit' && (
        <>
          <circle cx="50" cy="50" r="44" fill={main} opacity={fill} />
          <circle cx={50 + 17 * fill} cy={50 - 17 * fill} r={27 * fill} fill={theme.ground.top} opacity={fill} />
          <circle cx="77" cy="23" r={10 * fill} fill={second} />
          <circle cx="50" cy="50" r="44" {...stroke} />
        </>
      )}
      {kind === 'petals' && (
        <>
          {[0, 90, 180, 270].map((angle, i) => (
            <path key={angle} transform={`rotate(${angle} 50 50) translate(${2.5 * fill} ${-2.5 * fill})`} d="M50 50 V6 A44 44 0 0 1 94 50 Z" fill={[main, second, main, third][i]} opacity={fill} />
          ))}
          <circle cx="50" cy="50" r="45" {...stroke} />
        </>
      )}
      {kind === 'stack' &&
        [0, 1, 2].map((i) => (
          <g key={i}>
            <rect x={8 + i * 30} y={62 - i * 27} width="24" height={30 + i * 27} rx="12" fill={[third, second, main][i]} opacity={fill} />
            <rect x={8 + i * 30} y={62 - i * 27} width="24" height={30 + i * 27} rx="12" {...stroke} />
          </g>
        ))}
      {kind === 'letter' && (
        <>
          <rect x="5" y="5" width="90" height="90" rx="26" fill={main} opacity={fill} />
          <rect x="5" y="5" width="90" height="90" rx="26" {...stroke} />
          <text x="50" y="50" dy="0.355em" textAnchor="middle" fill={theme.markInk} opacity={fill} style={{ fontFamily: theme.type.family, fontWeight: 800, fontSize: 58 }}>
            {initial.toLocaleUpperCase()}
          </text>
        </>
      )}
    </svg>
  );
}
