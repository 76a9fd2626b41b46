// A title that enters letter by letter, holds, and ends as a poster. Theatre moves `reveal`, `tracking`, `push`, `glint`
// and `sub`; the manner of the letters is the style's.
import { useTheatre } from '../hooks/useTheatre';
import { Layer } from '../koda/Stage';
import { fade } from '../lib/colour';
import { frame, px } from '../lib/frame';
import { stagger } from '../lib/stagger';
import { fitText, letters } from '../lib/type';
import { theme } from '../theme';
import { easeOutBack, easeOutCubic, easeOutQuint, random } from '../utils/easing';

export interface TitleProps {
  readonly text: string;
  readonly subtitle?: string;
  readonly manner: 'pop' | 'rise' | 'emerge';
  /** Share of the picture's width that the title may fill. */
  readonly fill?: number;
  readonly align?: 'center' | 'left';
  readonly rule?: boolean;
}

export function Title({ text, subtitle, manner, fill = 0.78, align = 'center', rule = false }: TitleProps) {
  const { reveal, tracking, push, glint, sub, wave } = useTheatre('Title', { reveal: 1, tracking: 0, push: 0, glint: 0, sub: 1, wave: 0 });
  const face = { ...theme.type, tracking: theme.type.tracking + Math.max(0, tracking) };
  const shown = theme.type.caps ? text.toLocaleUpperCase() : text;
  // set for the widest tracking, so that the lines never break anew while it grows
  const setting = fitText(shown, { ...face, tracking: theme.type.tracking + 0.06 }, {
    width: (frame.width - frame.margin * 2) * (frame.shape === 'wide' ? fill : 1),
    height: frame.height * (frame.shape === 'tall' ? 0.5 : 0.56),
    maxSize: px(frame.shape === 'wide' ? 230 : 200),
    lineHeight: 1.12,
    maxLines: frame.shape === 'tall' ? 6 : 4,
  });
  const total = setting.lines.reduce((n, line) => n + letters(line).length, 0);
  let index = 0;
  return (
    <Layer
      style={{
        display: 'flex',
        flexDirection: 'column',
        justifyContent: 'center',
        alignItems: align === 'center' ? 'center' : 'flex-start',
        padding: `0 ${frame.margin}px`,
        transform: `scale(${1 + push})`,
        color: theme.ink,
        fontFamily: theme.type.family,
        fontWeight: theme.type.weight,
      }}
    >
      <div
        style={{
          fontSize: setting.size,
          lineHeight: 1.12,
          textAlign: align,
          letterSpacing: `${face.tracking}em`,
          color: theme.heading?.color,
          transform: theme.heading?.scale ? `scale(${theme.heading.scale})` : undefined,
        }}
      >
        {setting.lines.map((line, row) => (
          <div
            key={row}
            style={{
              whiteSpace: 'pre',
              marginRight: align === 'center' ? `-${face.tracking}em` : 0,
              overflow: manner === 'rise' ? 'hidden' : 'visible',
              padding: manner === 'rise' ? '0.06em 0.04em 0.14em' : 0,
              margin: manner === 'rise' ? '-0.06em -0.04em -0.14em' : undefined,
            }}
          >
            {letters(line).map((letter, i) => {
              const nth = index++;
              return (
                <span key={i} style={{ display: 'inline-block', whiteSpace: 'pre', ...letterStyle(manner, reveal, nth, total, glint, wave) }}>
                  {letter}
                </span>
              );
            })}
          </div>
        ))}
      </div>
      {rule && (
        <div
          style={{
            width: px(180) * Math.max(0, sub),
            height: px(5),
            marginTop: px(34),
            borderRadius: px(3),
            background: theme.accent,
          }}
        />
      )}
      {subtitle && (
        <div
          style={{
            marginTop: px(rule ? 26 : 40),
            fontFamily: theme.type.text,
            fontWeight: 500,
            fontSize: px(38) * (theme.aside?.scale ?? 1),
            letterSpacing: manner === 'emerge' ? '0.22em' : '0.01em',
            textTransform: manner === 'emerge' ? 'uppercase' : 'none',
            textAlign: align,
            color: theme.aside?.color ?? theme.muted,
            opacity: Math.max(0, Math.min(1, sub)),
            transform: `translateY(${(1 - sub) * px(24)}px)`,
          }}
        >
          {subtitle}
        </div>
      )}
    </Layer>
  );
}

function letterStyle(manner: TitleProps['manner'], reveal: number, nth: number, total: number, glint: number, wave: number) {
  if (manner === 'pop') {
    const p = stagger(reveal, nth, total, 0.72);
    const grown = easeOutBack(p);
    // a wave runs through the letters, one hop after another
    const since = (wave - Math.floor(wave)) * 1.9 - (nth / Math.max(1, total)) * 0.9;
    const hop = wave > 0 && since > 0 && since < 0.4 ? Math.sin((since / 0.4) * Math.PI) : 0;
    return {
      color: theme.lettering[nth % theme.lettering.length],
      opacity: p > 0 ? 1 : 0,
      transform: `translateY(${(1 - grown) * 0.5 - hop * 0.13}em) rotate(${(1 - grown) * (random(5, nth) - 0.5) * 70}deg) scale(${grown})`,
    };
  }
  if (manner === 'rise') {
    const p = easeOutQuint(stagger(reveal, nth, total, 0.86));
    return { transform: `translateY(${(1 - p) * 1.25}em)` };
  }
  // letters come out of the dark in no strict order, as if light found them
  const p = easeOutCubic(stagger(reveal, Math.floor(random(9, nth) * total), total, 0.8));
  const near = Math.max(0, 1 - Math.abs(glint * (total + 8) - 4 - nth) / 3.2);
  return {
    opacity: p,
    transform: `translateY(${(1 - p) * 0.12}em) scale(${1 + (1 - p) * 0.14})`,
    color: near > 0.01 ? `color-mix(in srgb, ${theme.heading?.color ?? theme.ink}, ${theme.accent} ${Math.round(near * 100)}%)` : undefined,
    textShadow: theme.dark ? `0 0 ${0.32 + near * 0.2}em ${fade(theme.accent, (0.3 + near * 0.5) * p)}` : undefined,
  };
}
