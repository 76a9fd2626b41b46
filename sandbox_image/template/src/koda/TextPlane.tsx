// Text of any script as a flat mesh: the browser draws it, fonts and emoji included, into a texture.
import { useLayoutEffect, useMemo, type ReactNode } from 'react';
import { CanvasTexture, Color, SRGBColorSpace, type ColorRepresentation } from 'three';
import { FONT, type FontName } from './fonts';
import { pending } from './pending';

const EM_PX = 160;
const LINE_HEIGHT = 1.25;

export interface TextPlaneProps {
  readonly text: string;
  /** Height of an em in scene units. */
  readonly fontSize?: number;
  readonly fontWeight?: number | string;
  readonly family?: FontName;
  readonly color?: ColorRepresentation;
  readonly anchorX?: number | string;
  readonly anchorY?: number | string;
  readonly textAlign?: string;
  readonly [prop: string]: unknown;
}

function draw(canvas: HTMLCanvasElement, text: string, font: string, color: string, align: string): void {
  const context = canvas.getContext('2d');
  if (!context) throw new Error('this browser gives no 2D canvas');
  const lines = text.split('\n');
  context.font = font;
  const width = Math.max(1, ...lines.map((line) => context.measureText(line).width));
  const padding = EM_PX / 4;
  canvas.width = Math.ceil(width + 2 * padding);
  canvas.height = Math.ceil(lines.length * LINE_HEIGHT * EM_PX + 2 * padding);
  context.font = font;
  context.fillStyle = color;
  context.textBaseline = 'middle';
  context.textAlign = align === 'left' ? 'left' : align === 'right' ? 'right' : 'center';
  const x = align === 'left' ? padding : align === 'right' ? canvas.width - padding : canvas.width / 2;
  lines.forEach((line, i) => context.fillText(line, x, padding + (i + 0.5) * LINE_HEIGHT * EM_PX));
}

function offset(anchor: number | string | undefined, size: number, start: string, end: string): number {
  if (typeof anchor === 'number') return -anchor;
  return anchor === start ? size / 2 : anchor === end ? -size / 2 : 0;
}

export function TextPlane({
  text,
  fontSize = 1,
  fontWeight = 700,
  family = 'sans',
  color = '#ffffff',
  anchorX = 'center',
  anchorY = 'middle',
  textAlign = 'center',
  ...props
}: TextPlaneProps): ReactNode {
  const font = `${fontWeight} ${EM_PX}px ${FONT[family]}`;
  const css = new Color(color).getStyle();
  const { canvas, texture } = useMemo(() => {
    const surface = document.createElement('canvas');
    draw(surface, text, font, css, textAlign);
    const made = new CanvasTexture(surface);
    made.colorSpace = SRGBColorSpace;
    made.anisotropy = 8;
    return { canvas: surface, texture: made };
  }, [text, font, css, textAlign]);
  useLayoutEffect(() => {
    // drawn at once for its size; again when the faces for this very text are there
    const loaded = document.fonts.load(font, text).then(() => {
      draw(canvas, text, font, css, textAlign);
      texture.dispose();
      texture.needsUpdate = true;
    });
    void pending.holdFor(`fonts of 3D text "${text.slice(0, 40)}"`, loaded);
    return () => texture.dispose();
  }, [canvas, texture, text, font, css, textAlign]);
  const height = (canvas.height / EM_PX) * fontSize;
  const width = (canvas.width / EM_PX) * fontSize;
  return (
    <group {...props}>
      <mesh position={[offset(anchorX, width, 'left', 'right'), -offset(anchorY, height, 'top', 'bottom'), 0]}>
        <planeGeometry args={[width, height]} />
        <meshBasicMaterial map={texture} transparent toneMapped={false} depthWrite={false} />
      </mesh>
    </group>
  );
}
