import { defineConfig } from 'vite';

// One module and one style sheet; who has a canvas has React and React Flow.
export default defineConfig({
  build: {
    lib: { entry: 'src/index.ts', formats: ['es'], fileName: 'index', cssFileName: 'style' },
    rolldownOptions: { external: [/^react($|\/)/, /^react-dom($|\/)/, '@xyflow/react'] },
    minify: false,
  },
});
