// Shows the design (1920x1080, say) at any window size, exactly to scale.
//
// The app always lays itself out in design pixels; one transform scales it. So a 640x360 preview breaks lines where the
// 3840x2160 video does. Text stays crisp (it is rasterised at the final scale) and a Canvas gets as many real pixels as
// it covers (useScale).
import { createContext, useContext, useLayoutEffect, useState, type ReactNode } from 'react';
import { getTimeline } from './contract';

interface Fit {
  readonly x: number;
  readonly y: number;
  readonly scaleX: number;
  readonly scaleY: number;
}

function fitWindow(): Fit {
  const { width, height } = getTimeline().size;
  const { innerWidth, innerHeight } = window;
  const scale = Math.min(innerWidth / width, innerHeight / height);
  const x = innerWidth - width * scale;
  const y = innerHeight - height * scale;
  // 854x480 of a 16:9 design leaves a third of a pixel: stretch that much, rather than show a grey edge
  if (x < 1.5 && y < 1.5) return { x: 0, y: 0, scaleX: innerWidth / width, scaleY: innerHeight / height };
  return { x: Math.round(x / 2), y: Math.round(y / 2), scaleX: scale, scaleY: scale };
}

// In depth too, which nothing shows here: where a flat scale has several layers under it (a Canvas and what is over it),
// Chromium draws them into a picture of the design's size first, and scales that. On the processor it costs 15 to 20 ms
// a frame of 640x360, and the picture is the softer for it.
function scaling({ scaleX, scaleY }: Fit): string {
  return `scale3d(${scaleX}, ${scaleY}, ${scaleX})`;
}

const Scale = createContext(1);

/** Real pixels per design pixel. */
export function useScale(): number {
  return useContext(Scale);
}

export function PageFrame({ children }: { children: ReactNode }): ReactNode {
  const [fit, setFit] = useState(fitWindow);
  useLayoutEffect(() => {
    const refit = (): void => setFit(fitWindow());
    refit();
    window.addEventListener('resize', refit);
    return () => window.removeEventListener('resize', refit);
  }, []);
  const { width, height } = getTimeline().size;
  const plain = fit.x === 0 && fit.y === 0 && fit.scaleX === 1 && fit.scaleY === 1;
  return (
    <Scale.Provider value={fit.scaleX * window.devicePixelRatio}>
      <div
        style={{
          position: 'absolute',
          left: 0,
          top: 0,
          width,
          height,
          overflow: 'hidden',
          contain: 'strict',
          transformOrigin: '0 0',
          transform: plain ? undefined : `translate(${fit.x}px, ${fit.y}px) ${scaling(fit)}`,
        }}
      >
        {children}
      </div>
    </Scale.Provider>
  );
}
