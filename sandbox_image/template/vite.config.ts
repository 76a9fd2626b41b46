// How a project is built and served.
//
// node_modules may be a read-only mount, so nothing is written there: the cache is `.vite` in the project, and this file
// is loaded as CommonJS (package.json has no "type"), which Vite compiles in memory instead of into node_modules.
import { realpathSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import type { UserConfig } from 'vite';
import { shortImports } from './vite/barrels';
import { bundledFonts } from './vite/fonts';
import { namedJson } from './vite/json';
import { runtimeInFront } from './vite/redirect';
import { theatreState } from './vite/theatre-state';

const PORT = 5173;

/** A path that Vite takes as a base: it begins and ends with a slash. */
function basePath(value: string | undefined): string {
  return value ? `/${value}/`.replace(/\/{2,}/g, '/') : '/';
}

export default async ({ command }: { command: 'build' | 'serve' }): Promise<UserConfig> => {
  const { default: react } = await import('@vitejs/plugin-react');
  const root = process.cwd();
  const env = process.env;
  const reactDom = path.join(root, 'node_modules', 'react-dom', 'package.json');
  const clientPort = Number(env.KODA_HMR_CLIENT_PORT);
  return {
    root,
    base: command === 'build' ? './' : basePath(env.KODA_BASE),
    cacheDir: '.vite',
    // whose errors name the file, as PostCSS's do not
    css: { transformer: 'lightningcss' },
    plugins: [react(), runtimeInFront(root), shortImports(root), bundledFonts(root), namedJson(), theatreState(root)],
    resolve: {
      // One scheduler for the DOM and for fiber, so that settle.ts can tell when both have nothing left to do.
      alias: [{ find: /^scheduler$/, replacement: createRequire(realpathSync(reactDom)).resolve('scheduler') }],
      dedupe: ['react', 'react-dom', 'three', '@react-three/fiber', '@theatre/core'],
    },
    build: {
      target: 'es2022',
      outDir: 'dist',
      assetsInlineLimit: 0,
      chunkSizeWarningLimit: 4096,
      modulePreload: { polyfill: false },
      reportCompressedSize: false,
      sourcemap: true,
      rolldownOptions: {
        output: {
          // positions are enough to find a page error's file and line; the sources would triple the bundle
          sourcemapExcludeSources: true,
          codeSplitting: { groups: [{ name: 'vendor', test: /\/node_modules\// }] },
        },
        onwarn(warning, warn) {
          if (warning.code === 'MODULE_LEVEL_DIRECTIVE' || warning.code === 'EVAL') return;
          warn(warning);
        },
      },
    },
    optimizeDeps: {
      include: ['react', 'react-dom', 'react-dom/client', 'react/jsx-runtime', 'react/jsx-dev-runtime', '@theatre/core'],
    },
    server: {
      host: '127.0.0.1',
      port: PORT,
      strictPort: true,
      // Reached through the sandbox's socket only: the proxy in front of it has checked host and token.
      allowedHosts: env.KODA_ALLOWED_HOSTS ? env.KODA_ALLOWED_HOSTS.split(',') : true,
      cors: false,
      fs: { strict: true, allow: [root, realpathSync(path.join(root, 'node_modules'))] },
      // Without these the page's own origin and base are used, which is what a proxy on the same origin needs.
      hmr: {
        ...(clientPort > 0 ? { clientPort } : {}),
        ...(env.KODA_HMR_PATH ? { path: env.KODA_HMR_PATH } : {}),
        ...(env.KODA_HMR_PROTOCOL ? { protocol: env.KODA_HMR_PROTOCOL } : {}),
      },
      watch: { ignored: ['**/dist/**', '**/.vite/**', '**/node_modules/**'] },
    },
  };
};
