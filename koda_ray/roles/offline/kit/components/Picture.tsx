// A picture, or a film, that opens, drifts under a slow camera, catches the light, and is seen whole at the end.
import type { CSSProperties } from 'react';
import { useTheatre } from '../hooks/useTheatre';
import { Layer } from '../koda/Stage';
import { fade } from '../lib/colour';
import { frame, px } from '../lib/frame';
import { theme } from '../theme';
import { clamp } from '../utils/easing';
import { Film, isFilm } from './Film';

export interface PictureProps {
  readonly src: string;
  readonly corner: number;
  /** Where the camera starts, in shares of the picture. */
  readonly from: { readonly x: number; readonly y: number };
}

export function Picture({ src, corner, from }: PictureProps) {
  const { open, zoom, pan, sheen, mat, tilt } = useTheatre('Picture', { open: 1, zoom: 1, pan: 0, sheen: 0, mat: 1, tilt: 0 });
  const inset = frame.margin * 0.9 * mat;
  const width = frame.width - inset * 2;
  const height = frame.height - inset * 2;
  const hidden = (1 - clamp(open)) * 46;
  const seen: CSSProperties = {
    position: 'absolute',
    inset: 0,
    width: '100%',
    height: '100%',
    objectFit: 'cover',
    transform: `scale(${zoom}) translate(${(0.5 - from.x) * (1 - pan) * 12}%, ${(0.5 - from.y) * (1 - pan) * 12}%)`,
  };
  return (
    <Layer style={{ perspective: px(2400) }}>
      <div style={{ position: 'absolute', inset: inset + px(14), transform: `translateY(${px(30)}px)`, borderRadius: px(corner), boxShadow: `0 0 ${px(70)}px ${px(10)}px ${fade(theme.shade, 0.4 * mat * clamp(open))}` }} />
      <div style={{ position: 'absolute', left: inset, top: inset, width, height, overflow: 'hidden', borderRadius: px(corner) * mat, clipPath: hidden > 0.01 ? `inset(${hidden}% ${hidden * 0.9}% round ${px(corner)}px)` : undefined, transform: `rotateY(${tilt}deg)` }}>
        {isFilm(src) ? <Film src={src} style={seen} /> : <img src={src} alt="" style={seen} />}
        <div style={{ position: 'absolute', top: '-50%', left: `${-50 + sheen * 190}%`, width: '26%', height: '200%', transform: 'rotate(16deg)', background: `linear-gradient(90deg, ${fade('#ffffff', 0)}, ${fade('#ffffff', 0.26)}, ${fade('#ffffff', 0)})` }} />
      </div>
    </Layer>
  );
}
