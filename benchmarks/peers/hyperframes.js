// HyperFrames tells the page which time to show; its drawing is the scene's own.
import { mount } from "./scene.js";

const root = document.getElementById("root");
const draw = mount(root, { width: Number(root.dataset.width), height: Number(root.dataset.height) });
draw(0);
window.addEventListener("hf-seek", (event) => draw(event.detail.time));
