// One phrase of kinetic type. Theatre moves `enter` (0 to 1) and `leave` (0 to 1); the layout says how it is set and from
// where its lines come.
import type { CSSProperties } from 'react';
import { useTheatre } from '../hooks/useTheatre';
import { Layer } from '../koda/Stage';
import { frame, px } from '../lib/frame';
import { stagger } from '../lib/stagger';
import { fitText, letters } from '../lib/type';
import { theme } from '../theme';
import { easeInCubic, easeOutBack, easeOutCubic, easeOutQuint } from '../utils/easing';

export interface PhraseProps {
  /** The Theatre object that moves it. */
  readonly name: string;
  readonly text: string;
  readonly layout: 'stack' | 'centre' | 'echo' | 'corner';
  readonly ink: string;
  readonly accent: string;
  /** A ground of its own that wipes in with the phrase. */
  readonly ground?: string;
  readonly from?: 'left' | 'right' | 'up' | 'down';
  readonly manner: 'pop' | 'rise' | 'emerge';
}

const TRAVEL = { left: [-1, 0], right: [1, 0], up: [0, -1], down: [0, 1] } as const;

export function Phrase({ name, text, layout, ink, accent, ground, from = 'down', manner }: PhraseProps) {
  const { enter, leave } = useTheatre(name, { enter: 0, leave: 0 });
  if (enter <= 0 || leave >= 1) return null;
  const shown = theme.type.caps ? text.toLocaleUpperCase() : text;
  const wide = frame.shape === 'wide';
  const setting = fitText(shown, theme.type, {
    width: (frame.width - frame.margin * 2) * (layout === 'corner' && wide ? 0.72 : wide ? 0.88 : 1),
    height: frame.height * (layout === 'echo' ? 0.34 : wide ? 0.66 : 0.5),
    maxSize: px(wide ? 300 : 240),
    lineHeight: 1.06,
    maxLines: wide ? 3 : 5,
  });
  const [dx, dy] = TRAVEL[from];
  const arrived = ground ? easeOutQuint(Math.min(1, enter * 1.6)) : 1;
  const left = leave <= 0 ? 0 : easeInCubic(leave);
  return (
    <>
      {ground && (
        <Layer
          style={{
            background: ground,
            transform: `translate(${dx * (1 - arrived) * 101}%, ${dy * (1 - arrived) * 101}%)`,
          }}
        />
      )}
      <Layer
        style={{
          ...placed(layout),
          color: ink,
          fontFamily: theme.type.family,
          fontWeight: theme.type.weight,
          fontSize: setting.size,
          lineHeight: 1.06,
          letterSpacing: `${theme.type.tracking}em`,
          opacity: 1 - left,
          transform: `translate(${-dx * left * px(120)}px, ${-dy * left * px(120)}px)`,
        }}
      >
        {layout === 'echo' && <Echo lines={setting.lines} ink={ink} enter={enter} above />}
        <div style={{ position: 'relative', textAlign: layout === 'centre' || layout === 'echo' ? 'center' : 'left' }}>
          {layout === 'stack' && (
            <div
              style={{
                width: px(120) * easeOutCubic(Math.min(1, enter * 1.4)),
                height: px(12),
                marginBottom: px(44),
                borderRadius: px(6),
                background: accent,
              }}
            />
          )}
          <Lines lines={setting.lines} enter={enter} manner={manner} accent={accent} />
        </div>
        {layout === 'echo' && <Echo lines={setting.lines} ink={ink} enter={enter} />}
      </Layer>
    </>
  );
}

function placed(layout: PhraseProps['layout']): CSSProperties {
  const base: CSSProperties = { display: 'flex', flexDirection: 'column', padding: theme.dark && frame.shape === 'wide' ? `${px(160)}px ${frame.margin}px` : frame.margin };
  if (layout === 'corner') return { ...base, justifyContent: 'flex-end', alignItems: 'flex-start' };
  return { ...base, justifyContent: 'center', alignItems: layout === 'stack' ? 'flex-start' : 'center' };
}

interface LinesProps {
  readonly lines: readonly string[];
  readonly enter: number;
  readonly manner: PhraseProps['manner'];
  readonly accent: string;
}

/** Lines that come word by word (`pop`), out of a mask (`rise`) or out of the dark (`emerge`). */
function Lines({ lines, enter, manner, accent }: LinesProps) {
  const units = lines.map((line) => (manner === 'pop' ? line.split(/(?<=\s)/) : manner === 'rise' ? [line] : letters(line)));
  const total = units.reduce((n, line) => n + line.length, 0);
  const longest = units.flat().reduce((a, b) => (b.trim().length > a.trim().length ? b : a), '');
  let index = 0;
  return (
    <>
      {units.map((line, row) => (
        <div key={row} style={{ whiteSpace: 'pre', overflow: manner === 'rise' ? 'hidden' : 'visible', paddingBottom: '0.14em', marginBottom: '-0.14em' }}>
          {line.map((unit, i) => {
            const p = stagger(enter, index++, total, manner === 'emerge' ? 0.85 : 0.62);
            const stressed = manner === 'pop' && unit === longest && total > 1;
            return (
              <span key={i} style={{ display: 'inline-block', whiteSpace: 'pre', color: stressed ? accent : undefined, ...entering(manner, p, row) }}>
                {unit}
              </span>
            );
          })}
        </div>
      ))}
    </>
  );
}

function entering(manner: PhraseProps['manner'], p: number, row: number): CSSProperties {
  if (manner === 'pop') {
    const grown = easeOutBack(p);
    return { opacity: p > 0 ? 1 : 0, transform: `translateY(${(1 - grown) * 0.6}em) rotate(${(1 - grown) * (row % 2 ? 7 : -7)}deg) scale(${0.4 + grown * 0.6})` };
  }
  if (manner === 'rise') return { transform: `translateY(${(1 - easeOutQuint(p)) * 1.25}em)` };
  const q = easeOutCubic(p);
  return { opacity: q, transform: `translateX(${(1 - q) * 0.25}em)` };
}

/** The phrase again in outline, above or below, stepping away as it enters. */
function Echo({ lines, ink, enter, above = false }: { lines: readonly string[]; ink: string; enter: number; above?: boolean }) {
  const text = (above ? lines[lines.length - 1] : lines[0]) ?? '';
  return (
    <div style={{ position: 'relative', height: 0 }}>
      {[1, 2].map((step) => {
        const p = easeOutQuint(stagger(enter, step, 4, 0.5));
        return (
          <div
            key={step}
            style={{
              position: 'absolute',
              left: '50%',
              [above ? 'bottom' : 'top']: 0,
              whiteSpace: 'pre',
              color: 'transparent',
              WebkitTextStroke: `${px(2.5)}px ${ink}`,
              opacity: p * (0.5 - step * 0.16),
              transform: `translate(-50%, ${(above ? -1 : 1) * p * (step - 1) * 1.02 + (above ? 0.02 : 0.06)}em)`,
            }}
          >
            {text}
          </div>
        );
      })}
    </div>
  );
}
