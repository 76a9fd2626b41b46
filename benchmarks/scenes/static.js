// A title card that comes in and then stands: four fifths of its frames are the one before.
export function mount(root, { width, height }) {
  const u = height / 1080;
  root.style.background = "radial-gradient(circle at 30% 30%,#2c4160,#0e1018)";
  const line = (css, text) => {
    const element = document.createElement("div");
    element.style.cssText = `position:absolute;left:0;right:0;text-align:center;${css}`;
    element.textContent = text;
    root.appendChild(element);
    return element;
  };
  const title = line(`top:37%;color:#fff;font:800 ${130 * u}px "DejaVu Sans",sans-serif`, "Title card");
  const under = line(`top:56%;color:#9cc4e4;font:400 ${48 * u}px "DejaVu Sans",sans-serif`, "in for a moment, then it stands");
  const ease = (x) => 1 - Math.pow(1 - x, 3);
  let shown = null;
  return (seconds) => {
    const k = ease(Math.min(1, (seconds % 2) / 0.4));
    if (k === shown) return;
    shown = k;
    title.style.transform = `translateY(${(1 - k) * -120 * u}px)`;
    under.style.transform = `translateY(${(1 - k) * 120 * u}px)`;
    title.style.opacity = under.style.opacity = String(k);
  };
}
