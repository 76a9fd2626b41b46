// Puts the runtime in front of two packages, for the project's own files only.
//
// A scene written in the usual way, `import { Canvas } from '@react-three/fiber'` or `import { Text, Environment } from
// '@react-three/drei'`, must run on the page's clock and without a network. So those imports get src/koda/fiber.ts and
// src/koda/drei.ts, which re-export the package with the few components replaced that would not.
import path from 'node:path';
import type { Plugin } from 'vite';

export const FRONTS: Record<string, string> = {
  '@react-three/fiber': 'src/koda/fiber.ts',
  '@react-three/drei': 'src/koda/drei.ts',
};

/** The plugin. `root` is the project's absolute path. */
export function runtimeInFront(root: string): Plugin {
  const sources = path.join(root, 'src') + path.sep;
  const runtime = path.join(sources, 'koda') + path.sep;
  return {
    name: 'koda:runtime-in-front',
    enforce: 'pre',
    resolveId(source, importer) {
      const front = FRONTS[source];
      if (!front || !importer) return null;
      const file = path.resolve(importer.split('?')[0] ?? importer);
      return file.startsWith(sources) && !file.startsWith(runtime) ? path.join(root, front) : null;
    },
  };
}
