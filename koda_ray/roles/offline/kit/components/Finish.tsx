// The last layer over the picture: a vignette, film bars where the style has them, and a grain that keeps gradients from
// banding. It carries nothing that has to be read.
import { useLayoutEffect, useRef } from 'react';
import { useTheatre } from '../hooks/useTheatre';
import { useScale } from '../koda/PageFrame';
import { Layer } from '../koda/Stage';
import { fade } from '../lib/colour';
import { frame } from '../lib/frame';
import { theme } from '../theme';
import { mulberry32 } from '../utils/easing';

interface FinishProps {
  /** Strength of the darkened edges, 0 to 1. */
  readonly vignette?: number;
  /** Height of each film bar as a share of the picture. */
  readonly bars?: number;
  readonly grain?: number;
}

/** A tile of faint noise, the same in every frame and on every machine. */
function noiseTile(strength: number): HTMLCanvasElement {
  const size = 192;
  const canvas = document.createElement('canvas');
  canvas.width = canvas.height = size;
  const pen = canvas.getContext('2d');
  if (!pen) return canvas;
  const image = pen.createImageData(size, size);
  const random = mulberry32(7);
  for (let i = 0; i < image.data.length; i += 4) {
    const value = random() < 0.5 ? 0 : 255;
    image.data.set([value, value, value, random() * strength * 255], i);
  }
  pen.putImageData(image, 0, 0);
  return canvas;
}

/** The noise over the whole picture, drawn once, as large as it is seen: a preview would make it small in every frame. */
function Grain({ strength }: { strength: number }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const scale = Math.min(1, useScale());
  const width = Math.round(frame.width * scale);
  const height = Math.round(frame.height * scale);
  useLayoutEffect(() => {
    const pen = canvas.current?.getContext('2d');
    const pattern = pen?.createPattern(noiseTile(strength), 'repeat');
    if (!pen || !pattern) return;
    pen.setTransform(width / frame.width, 0, 0, height / frame.height, 0, 0);
    pen.imageSmoothingEnabled = false; // averaged, it would be no grain
    pen.clearRect(0, 0, frame.width, frame.height);
    pen.fillStyle = pattern;
    pen.fillRect(0, 0, frame.width, frame.height);
  }, [strength, width, height]);
  return <canvas ref={canvas} width={width} height={height} style={{ position: 'absolute', inset: 0, width: frame.width, height: frame.height }} />;
}

export function Finish({ vignette = 0, bars = 0, grain = 0.03 }: FinishProps) {
  const { close } = useTheatre('Finish', { close: 1 });
  const bar = Math.round(frame.height * bars * close);
  return (
    <Layer>
      {vignette > 0 && (
        <Layer
          style={{
            background: `radial-gradient(ellipse 78% 82% at 50% 48%, ${fade(theme.shade, 0)} 52%, ${fade(theme.shade, vignette)} 128%)`,
          }}
        />
      )}
      <Grain strength={grain} />
      {bar > 0 && (
        <>
          <div style={{ position: 'absolute', inset: `0 0 auto 0`, height: bar, background: '#000' }} />
          <div style={{ position: 'absolute', inset: `auto 0 0 0`, height: bar, background: '#000' }} />
        </>
      )}
    </Layer>
  );
}
