// Bundles the scenes for Remotion, or renders one: node remotion.mjs bundle OUT THREE SCENE=FILE... | render JSON
import { createRequire } from "node:module";
import { writeFileSync } from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

const require = createRequire(path.join(process.cwd(), "package.json"));
const load = (name) => import(pathToFileURL(require.resolve(name)).href);
const say = (event) => console.log(JSON.stringify(event));
const [, , verb, ...rest] = process.argv;

if (verb === "bundle") {
  const [outDir, three, ...scenes] = rest;
  const names = scenes.map((scene) => scene.split("="));
  const entry = path.resolve("entry.js");
  writeFileSync(entry, `
    import { createElement, useLayoutEffect, useRef } from "react";
    import { Composition, registerRoot, useCurrentFrame, useVideoConfig } from "remotion";
    ${names.map(([name, file]) => `import { mount as draw_${name} } from ${JSON.stringify(file)};`).join("\n")}
    const page = (mount) => function Scene() {
      const frame = useCurrentFrame(), { fps, width, height } = useVideoConfig(), root = useRef(null), draw = useRef(null);
      useLayoutEffect(() => {
        draw.current ??= mount(root.current, { width, height });
        draw.current(frame / fps);
      });
      return createElement("div", { ref: root, style: { position: "relative", width, height, overflow: "hidden" } });
    };
    const scenes = { ${names.map(([name]) => `${name}: page(draw_${name})`).join(", ")} };
    registerRoot(() => Object.entries(scenes).map(([id, component]) =>
      createElement(Composition, { key: id, id, component, width: 1920, height: 1080, fps: 60, durationInFrames: 60 })));
  `);
  const { bundle } = await load("@remotion/bundler");
  await bundle({ entryPoint: entry, outDir, webpackOverride: (config) => ({
    ...config, resolve: { ...config.resolve, alias: { ...config.resolve?.alias, three },
      modules: [path.resolve("node_modules"), "node_modules"] } }) });
  process.exit(0);
}

const { serveUrl, scene, width, height, fps, frames, workers, preset, gl, browser, output } = JSON.parse(rest[0]);
const { openBrowser, renderMedia, selectComposition } = await load("@remotion/renderer");
const chromeMode = path.basename(browser).includes("shell") ? "headless-shell" : "chrome-for-testing";
const common = { browserExecutable: browser, chromeMode, chromiumOptions: { gl }, logLevel: "error" };
const puppeteerInstance = await openBrowser("chrome", common);
const composition = await selectComposition({ serveUrl, id: scene, puppeteerInstance, ...common });
say({ event: "ready" });
let last = 0;
await renderMedia({
  ...common, serveUrl, puppeteerInstance, composition: { ...composition, width, height, fps, durationInFrames: frames },
  codec: "h264", crf: 18, pixelFormat: "yuv420p", colorSpace: "bt709", x264Preset: preset,
  imageFormat: "jpeg", jpegQuality: 95, muted: true, concurrency: workers, outputLocation: output, overwrite: true,
  onProgress: ({ renderedFrames }) => {
    if (renderedFrames > last) say({ event: "frames", done: (last = renderedFrames) });
  },
});
say({ event: "done" });
await puppeteerInstance.close({ silent: true }).catch(() => {});
process.exit(0);
