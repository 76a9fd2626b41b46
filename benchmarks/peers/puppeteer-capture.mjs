// Renders a page by puppeteer-capture: node puppeteer-capture.mjs JSON
import { createRequire } from "node:module";
import path from "node:path";
import { pathToFileURL } from "node:url";

const require = createRequire(path.join(process.cwd(), "package.json"));
const { PuppeteerCaptureFormat, capture, launch } = require("puppeteer-capture");
const { page: file, width, height, fps, frames, preset, gl, browser: executablePath, output } = JSON.parse(process.argv[2]);
const say = (event) => console.log(JSON.stringify(event));

const graphics = gl === "egl" ? ["--use-gl=angle", "--use-angle=gl-egl", "--ignore-gpu-blocklist"] : [];
const args = ["--no-sandbox", "--allow-file-access-from-files", "--enable-unsafe-swiftshader", ...graphics];
const browser = await launch({ executablePath, args, defaultViewport: { width, height } });
const page = await browser.newPage();
const recorder = await capture(page, {
  fps, format: PuppeteerCaptureFormat.MP4(preset),
  customFfmpegConfig: async (ffmpeg) => { ffmpeg.outputOptions(["-crf 18", "-pix_fmt yuv420p", `-frames:v ${frames}`]); },
});
let stop;
const enough = new Promise((done) => { stop = done; });
recorder.on("frameCaptured", (index) => {
  say({ event: "frames", done: index + 1 });
  if (index + 1 >= frames) stop();
});
await page.goto(pathToFileURL(file).href);
await page.waitForFunction("window.begun");
await recorder.start(output);
await enough;
await recorder.stop();
await recorder.detach();
await browser.close();
