// The word that the ball hops across: letters rise into place, and dip when they are hit.
import { FONT } from '../koda/fonts';
import { useCurrentTime } from '../hooks/useCurrentTime';
import { useTheatre } from '../hooks/useTheatre';
import { clamp, easeOutBack } from '../utils/easing';

/** A letter, where its middle stands, and when the ball hits it; pixels and seconds. */
export interface Letter {
  glyph: string;
  x: number;
  hit: number;
}

interface TitleProps {
  letters: readonly Letter[];
  baseline: number;
  caption: string;
}

const SIZE = 430;
// how far below the middle of its line Sora's baseline is
const LINE_MIDDLE = 0.335 * SIZE;

/** How far a letter is pushed down, in pixels: a blow that springs back. */
function dip(since: number): number {
  if (since <= 0) return 0;
  return 74 * Math.exp(-5.2 * since) * Math.sin(since * 13);
}

export function Title({ letters, baseline, caption }: TitleProps) {
  const time = useCurrentTime();
  const title = useTheatre('Title', { rise: 1, caption: 1, line: 1 });
  return (
    <>
      {letters.map(({ glyph, x, hit }, i) => {
        const own = clamp(title.rise * 1.75 - i * 0.25);
        const push = dip(time - hit);
        return (
          <span
            key={glyph + i}
            style={{
              position: 'absolute',
              left: x,
              top: baseline - LINE_MIDDLE,
              fontFamily: FONT.display,
              fontWeight: 800,
              fontSize: SIZE,
              lineHeight: 0,
              color: '#2b1038',
              opacity: clamp(own * 3),
              transformOrigin: '50% 0%',
              transform: `translate(-50%, ${(1 - easeOutBack(own)) * 260 + push}px) scale(${1 + push / 900}, ${1 - push / 420})`,
            }}
          >
            {glyph}
          </span>
        );
      })}
      <div
        style={{
          position: 'absolute',
          left: 362,
          width: 1060 * title.line,
          top: baseline + 78,
          height: 5,
          borderRadius: 3,
          background: 'linear-gradient(90deg, #ff4b2b, #ff8a5c 60%, rgba(255,138,92,0))',
        }}
      />
      <div
        style={{
          position: 'absolute',
          left: 362,
          top: baseline + 122,
          fontFamily: FONT.sans,
          fontWeight: 500,
          fontSize: 54,
          letterSpacing: '-0.01em',
          color: '#6b2f52',
          opacity: title.caption,
          transform: `translateY(${(1 - title.caption) * 36}px)`,
        }}
      >
        {caption}
      </div>
    </>
  );
}
