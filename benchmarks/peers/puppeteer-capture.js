// puppeteer-capture moves the page's own time. The scene is drawn at how far that is from the start, as it has it itself:
// an animation frame of the browser's own comes before the first captured one, and would put all of them off.
import { mount } from "./scene.js";

const root = document.getElementById("root");
const draw = mount(root, { width: Number(root.dataset.width), height: Number(root.dataset.height) });
draw(0);
requestAnimationFrame(function frame() {
  const clock = window.__PuppeteerCaptureViaHeadlessExperimental;
  if (clock?.active) draw(clock.timestampOffsetFromOrigin / 1000);
  requestAnimationFrame(frame);
});
window.begun = true;
