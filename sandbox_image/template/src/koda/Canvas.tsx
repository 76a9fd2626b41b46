// A react-three-fiber Canvas that the page's clock drives: `import { Canvas } from '@react-three/fiber'` gives this one.
//
// It measures itself at once and in design pixels (no ResizeObserver turn, which needs a painted frame), draws as many
// real pixels as it covers, keeps its drawing buffer for the capture, and provides the project's Theatre sheet.
import { Canvas as FiberCanvas, type CanvasProps } from '@react-three/fiber';
import { RafDriverProvider, SheetProvider } from '@theatre/r3f';
import { Suspense, type ReactNode } from 'react';
import { NeutralToneMapping, PCFSoftShadowMap, SRGBColorSpace } from 'three';
import { useScale } from './PageFrame';
import { mainSheet, rafDriver } from './theatre';
import './three';
import { Waiting } from './Waiting';

/** Calls back when it starts to observe, then as the browser's own observer does. */
class ImmediateResizeObserver implements ResizeObserver {
  private readonly later: ResizeObserver;

  constructor(private readonly callback: ResizeObserverCallback) {
    this.later = new ResizeObserver(callback);
  }

  observe(target: Element): void {
    this.callback([], this);
    this.later.observe(target);
  }

  unobserve(target: Element): void {
    this.later.unobserve(target);
  }

  disconnect(): void {
    this.later.disconnect();
  }
}

const MEASURE = { polyfill: ImmediateResizeObserver, offsetSize: true, scroll: false, debounce: 0 };

// Khronos' neutral tone mapping leaves base colours as they were asked for; ACES would turn pure red to orange.
const GL = {
  alpha: true,
  antialias: true,
  preserveDrawingBuffer: true,
  powerPreference: 'high-performance',
  toneMapping: NeutralToneMapping,
  outputColorSpace: SRGBColorSpace,
} as const;

/** The props of fiber's Canvas; `frameloop` and `dpr` belong to the page. */
export function Canvas({ children, gl, shadows = true, style, ...props }: CanvasProps): ReactNode {
  const scale = useScale();
  // a canvas has floor(width * dpr) pixels: keep a third of 1920 from becoming 639
  const dpr = scale + 1e-6;
  const settings = typeof gl === 'function' ? gl : ({ ...GL, ...gl } as CanvasProps['gl']);
  return (
    <FiberCanvas
      {...props}
      gl={settings}
      shadows={shadows === true ? { type: PCFSoftShadowMap } : shadows}
      frameloop="never"
      dpr={dpr}
      resize={MEASURE}
      style={{ position: 'absolute', inset: 0, ...style }}
    >
      <SheetProvider sheet={mainSheet()}>
        <RafDriverProvider driver={rafDriver}>
          <Suspense fallback={<Waiting name="a suspended component in Canvas" />}>{children}</Suspense>
        </RafDriverProvider>
      </SheetProvider>
    </FiberCanvas>
  );
}
