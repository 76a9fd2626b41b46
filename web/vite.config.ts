import tailwindcss from '@tailwindcss/vite';
import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';

// Hashed files lie in /page, where the server gives them away as what never changes.
export default defineConfig({
  plugins: [react(), tailwindcss()],
  build: { assetsDir: 'page', assetsInlineLimit: 0, modulePreload: { polyfill: false } },
  server: { proxy: { '/v1': { target: 'http://127.0.0.1:8420', changeOrigin: true, ws: true, rewriteWsOrigin: true } } },
});
