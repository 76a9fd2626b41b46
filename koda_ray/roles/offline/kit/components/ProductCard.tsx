// A card in space, lit from above: picture, name, price. Theatre turns it and brings the parts in.
import { useTheatre } from '../hooks/useTheatre';
import { Layer } from '../koda/Stage';
import { darken, fade, lighten, mix } from '../lib/colour';
import { frame, px } from '../lib/frame';
import { fitText } from '../lib/type';
import { theme } from '../theme';
import { clamp } from '../utils/easing';

export interface ProductCardProps {
  readonly name: string;
  readonly price?: string;
  readonly tagline?: string;
  readonly action: string;
  /** A picture's address, or an emoji that stands for the product. */
  readonly image?: string;
  readonly emblem?: string;
  readonly corner: number;
}

export function ProductCard({ name, price, tagline, action, image, emblem, corner }: ProductCardProps) {
  const card = useTheatre('Card', { turn: 0, tilt: 0, rise: 0, scale: 1 });
  const product = useTheatre('Product', { enter: 1, float: 0 });
  const facts = useTheatre('Facts', { name: 1, price: 1, action: 1, sheen: 0 });
  const across = frame.shape !== 'tall';
  const width = px(across ? (frame.shape === 'square' ? 900 : 1240) : 860);
  const height = px(across ? 640 : 1260);
  const picture = across ? { left: 0, top: 0, width: width * 0.47, height } : { left: 0, top: 0, width, height: height * 0.54 };
  const text = across ? { left: width * 0.47, top: 0, width: width * 0.53, height } : { left: 0, top: height * 0.54, width, height: height * 0.46 };
  const pad = px(64);
  const title = fitText(name, theme.type, { width: text.width - pad * 2, height: text.height * 0.36, maxSize: px(96), lineHeight: 1.08, maxLines: 3 });
  return (
    <Layer style={{ perspective: px(2600), perspectiveOrigin: '50% 46%' }}>
      <div
        style={{
          position: 'absolute',
          left: (frame.width - width) / 2 + px(30),
          top: frame.height / 2 + height / 2 - px(30),
          width: width - px(60),
          height: px(150),
          background: `radial-gradient(closest-side, ${fade(theme.shade, theme.dark ? 0.6 : 0.34)}, ${fade(theme.shade, 0)})`,
          transform: `translateY(${px(10)}px) scale(${1 - Math.abs(card.turn) * 0.006 + card.rise * 0.05}, ${1 - card.rise * 0.2})`,
          opacity: clamp(card.scale),
        }}
      />
      <div
        style={{
          position: 'absolute',
          left: (frame.width - width) / 2,
          top: (frame.height - height) / 2,
          width,
          height,
          borderRadius: px(corner),
          overflow: 'hidden',
          background: theme.paper,
          transform: `translateY(${-card.rise * px(60)}px) rotateX(${card.tilt}deg) rotateY(${card.turn}deg) scale(${card.scale})`,
        }}
      >
        <div style={{ position: 'absolute', ...picture, overflow: 'hidden', background: `linear-gradient(150deg, ${lighten(theme.accent, 0.22)}, ${theme.accent} 55%, ${darken(theme.accent, 0.16)})` }}>
          <div style={{ position: 'absolute', left: '50%', top: '50%', width: px(720), height: px(720), margin: -px(360), background: `radial-gradient(closest-side, ${fade('#ffffff', 0.5)}, ${fade('#ffffff', 0)})` }} />
          {image ? (
            <img src={image} alt="" style={{ position: 'absolute', inset: 0, width: '100%', height: '100%', objectFit: 'cover', transform: `scale(${1.12 - product.enter * 0.06 + product.float * 0.03})`, opacity: clamp(product.enter * 2) }} />
          ) : (
            <Emblem emblem={emblem} enter={product.enter} float={product.float} />
          )}
        </div>
        <div style={{ position: 'absolute', ...text, padding: pad, display: 'flex', flexDirection: 'column', justifyContent: 'center', gap: px(26) }}>
          <div style={{ color: theme.paperInk, fontFamily: theme.type.family, fontWeight: theme.type.weight, letterSpacing: `${theme.type.tracking}em`, fontSize: title.size, lineHeight: 1.08, opacity: clamp(facts.name), transform: `translateY(${(1 - facts.name) * px(50)}px)` }}>
            {title.lines.map((line) => (
              <div key={line}>{line}</div>
            ))}
          </div>
          {tagline && <div style={{ fontFamily: theme.type.text, fontSize: px(34), lineHeight: 1.35, color: theme.paperInk, opacity: clamp(facts.name) * 0.65 }}>{tagline}</div>}
          {price && (
            <div style={{ fontFamily: theme.type.text, fontWeight: 700, fontSize: px(84), letterSpacing: '-0.03em', color: theme.priceInk, opacity: clamp(facts.price * 2), transform: `scale(${0.6 + 0.4 * facts.price})`, transformOrigin: '0 50%' }}>
              {price}
            </div>
          )}
          <div
            style={{
              alignSelf: 'flex-start',
              marginTop: px(10),
              padding: `${px(24)}px ${px(50)}px`,
              borderRadius: px(60),
              background: theme.paperInk,
              color: theme.paper,
              fontFamily: theme.type.text,
              fontWeight: 650,
              fontSize: px(36),
              opacity: clamp(facts.action * 2),
              transform: `translateY(${(1 - facts.action) * px(40)}px)`,
            }}
          >
            {action}
          </div>
        </div>
        <div style={{ position: 'absolute', top: -height * 0.5, left: -width * 0.6 + facts.sheen * width * 2.1, width: width * 0.22, height: height * 2, transform: 'rotate(18deg)', background: `linear-gradient(90deg, ${fade('#ffffff', 0)}, ${fade('#ffffff', 0.3)}, ${fade('#ffffff', 0)})` }} />
      </div>
    </Layer>
  );
}

/** The product as an emoji, or as three plain solids where none fits. */
function Emblem({ emblem, enter, float }: { emblem?: string; enter: number; float: number }) {
  const lift = Math.sin(float * Math.PI * 2) * px(12);
  return (
    <div style={{ position: 'absolute', inset: 0, display: 'flex', alignItems: 'center', justifyContent: 'center', transform: `translateY(${lift - (1 - enter) * px(-160)}px) scale(${0.5 + enter * 0.5}) rotate(${(1 - enter) * -14}deg)`, opacity: clamp(enter * 3) }}>
      <div style={{ position: 'absolute', left: '50%', top: '50%', width: px(360), height: px(80), marginLeft: -px(180), marginTop: px(150) - lift, background: `radial-gradient(closest-side, ${fade(theme.shade, 0.5)}, ${fade(theme.shade, 0)})` }} />
      {emblem ? (
        <div style={{ position: 'relative', fontSize: px(300), lineHeight: 1 }}>{emblem}</div>
      ) : (
        <svg viewBox="0 0 200 200" style={{ position: 'relative', width: px(400), height: px(400), overflow: 'visible' }}>
          <defs>
            <linearGradient id="solid" x1="0" y1="0" x2="1" y2="1">
              <stop offset="0" stopColor="#ffffff" />
              <stop offset="1" stopColor={mix(theme.accent, '#ffffff', 0.55)} />
            </linearGradient>
            <radialGradient id="globe" cx="0.36" cy="0.3" r="0.8">
              <stop offset="0" stopColor="#ffffff" />
              <stop offset="0.45" stopColor={lighten(theme.colours[1] ?? theme.accent, 0.35)} />
              <stop offset="1" stopColor={darken(theme.colours[1] ?? theme.accent, 0.2)} />
            </radialGradient>
          </defs>
          <rect x="62" y="22" width="76" height="150" rx="26" fill="url(#solid)" />
          <rect x="80" y="4" width="40" height="26" rx="8" fill={darken(theme.accent, 0.45)} />
          <rect x="62" y="86" width="76" height="44" fill={fade(theme.accent, 0.85)} />
          <rect x="72" y="34" width="9" height="124" rx="4.5" fill="#ffffff" opacity="0.8" />
          <circle cx="150" cy="148" r="25" fill="url(#globe)" />
        </svg>
      )}
    </div>
  );
}
