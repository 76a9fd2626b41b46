// The line that says what a chart or a list is about, and the small print under the picture.
import { useTheatre } from '../hooks/useTheatre';
import { frame, px } from '../lib/frame';
import { fitText } from '../lib/type';
import { theme } from '../theme';

interface HeadingProps {
  readonly text: string;
  readonly note?: string;
  readonly align?: 'left' | 'center';
}

/** Where the picture's content begins under a heading, in pixels. */
export function headingHeight(text: string): number {
  return text ? px(frame.shape === 'tall' ? 420 : 250) : frame.margin;
}

export function Heading({ text, note, align = 'left' }: HeadingProps) {
  const { reveal } = useTheatre('Heading', { reveal: 1 });
  const larger = theme.heading?.scale ?? 1;
  const setting = fitText(text || ' ', theme.type, {
    width: frame.width - frame.margin * 2,
    height: px(frame.shape === 'tall' ? 250 : 130) * Math.max(1, Math.min(1.25, larger)),
    maxSize: px(92) * larger,
    maxLines: frame.shape === 'tall' ? 2 : 1,
  });
  return (
    <>
      {text && !theme.heading?.hidden && (
        <div
          style={{
            position: 'absolute',
            left: frame.margin,
            right: frame.margin,
            top: frame.shape === 'tall' ? px(150) : px(86),
            overflow: 'hidden',
            paddingBottom: px(14),
            textAlign: align,
            color: theme.heading?.color ?? theme.ink,
            fontFamily: theme.type.family,
            fontWeight: theme.type.weight,
            letterSpacing: `${theme.type.tracking}em`,
            fontSize: setting.size,
            lineHeight: 1.14,
          }}
        >
          <div style={{ transform: `translateY(${(1 - reveal) * 115}%)` }}>
            {setting.lines.map((line) => (
              <div key={line} style={{ whiteSpace: 'pre' }}>
                {theme.type.caps ? line.toLocaleUpperCase() : line}
              </div>
            ))}
          </div>
        </div>
      )}
      {note && (
        <div
          style={{
            position: 'absolute',
            right: frame.margin,
            bottom: px(34),
            fontFamily: theme.type.text,
            fontSize: px(21),
            color: theme.muted,
            opacity: Math.max(0, Math.min(1, reveal)),
          }}
        >
          {note}
        </div>
      )}
    </>
  );
}
