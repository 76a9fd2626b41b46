// A chart of 300 SVG nodes: bars that grow in turn, a line through their tops, and ticks.
export function mount(root, { width, height }) {
  const name = "http://www.w3.org/2000/svg";
  root.style.background = "#0f1522";
  const svg = document.createElementNS(name, "svg");
  svg.setAttribute("viewBox", "0 0 1920 1080");
  svg.style.cssText = "position:absolute;inset:0;width:100%;height:100%";
  root.appendChild(svg);
  const add = (tag, attributes) => {
    const node = document.createElementNS(name, tag);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, String(value));
    svg.appendChild(node);
    return node;
  };
  const COUNT = 100, left = 110, step = 17, base = 960;
  const bars = [], dots = [];
  for (let i = 0; i < COUNT; i++) {
    const hue = 200 + i * 1.4;
    bars.push(add("rect", { x: left + i * step, width: 11, rx: 3, fill: `hsl(${hue} 70% 58%)` }));
    dots.push(add("circle", { cx: left + i * step + 5.5, r: 4, fill: "#fff" }));
    add("line", { x1: left + i * step + 5.5, x2: left + i * step + 5.5, y1: base + 6, y2: base + (i % 10 ? 14 : 26), stroke: "#5b6b86" });
  }
  const line = add("polyline", { fill: "none", stroke: "#ffd27a", "stroke-width": 4 });
  return (seconds) => {
    const points = [];
    for (let i = 0; i < COUNT; i++) {
      const grown = Math.min(1, Math.max(0, seconds * 1.2 - i * 0.01));
      const value = (1 - Math.pow(1 - grown, 3)) * (260 + 220 * Math.sin(i * 0.17 + seconds) + 120 * Math.sin(i * 0.45));
      const tall = Math.max(2, Math.abs(value));
      bars[i].setAttribute("y", (base - tall).toFixed(2));
      bars[i].setAttribute("height", tall.toFixed(2));
      dots[i].setAttribute("cy", (base - tall - 14).toFixed(2));
      points.push(`${left + i * step + 5.5},${(base - tall - 14).toFixed(2)}`);
    }
    line.setAttribute("points", points.join(" "));
  };
}
