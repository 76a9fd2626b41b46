// The picture: a background, and layers that each fill it. Put a Canvas and Layers of DOM into it, in drawing order.
import type { CSSProperties, ReactNode } from 'react';
import { FONT } from './fonts';

interface StageProps {
  /** Any CSS background: a colour or a gradient. */
  readonly background?: string;
  readonly style?: CSSProperties;
  readonly children?: ReactNode;
}

/** The whole picture, in design pixels. */
export function Stage({ background = '#0b0d12', style, children }: StageProps): ReactNode {
  return (
    <div style={{ position: 'absolute', inset: 0, overflow: 'hidden', background, fontFamily: FONT.sans, ...style }}>
      {children}
    </div>
  );
}

/** A layer of DOM over the whole picture. */
export function Layer({ style, children }: { style?: CSSProperties; children?: ReactNode }): ReactNode {
  return <div style={{ position: 'absolute', inset: 0, pointerEvents: 'none', ...style }}>{children}</div>;
}
