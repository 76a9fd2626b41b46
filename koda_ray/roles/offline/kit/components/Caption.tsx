// A line of type for pictures whose subject is not type: low in the frame, clear of the edges.
import { useTheatre } from '../hooks/useTheatre';
import { Layer } from '../koda/Stage';
import { frame, px } from '../lib/frame';
import { fitText } from '../lib/type';
import { theme } from '../theme';

interface CaptionProps {
  readonly text: string;
  readonly position?: 'top' | 'bottom';
  /** Its size relative to usual. */
  readonly scale?: number;
}

export function Caption({ text, position = 'bottom', scale = 1 }: CaptionProps) {
  const { reveal } = useTheatre('Caption', { reveal: 1 });
  const setting = fitText(text, theme.type, {
    width: frame.width - frame.margin * 2,
    height: frame.height * 0.2 * scale,
    maxSize: px(82) * scale,
    maxLines: 2,
  });
  const edge = frame.shape === 'tall' ? frame.height * 0.1 : frame.margin * 0.8;
  return (
    <Layer>
      <div
        style={{
          position: 'absolute',
          left: frame.margin,
          right: frame.margin,
          [position]: edge,
          textAlign: 'center',
          color: theme.heading?.color ?? theme.ink,
          fontFamily: theme.type.family,
          fontWeight: theme.type.weight,
          letterSpacing: `${theme.type.tracking}em`,
          fontSize: setting.size,
          lineHeight: 1.14,
          opacity: Math.min(1, Math.max(0, reveal)),
          transform: `translateY(${(1 - reveal) * px(40)}px)`,
        }}
      >
        {setting.lines.map((line) => (
          <div key={line} style={{ whiteSpace: 'pre' }}>
            {line}
          </div>
        ))}
      </div>
    </Layer>
  );
}
