// DOM, CSS and SVG without a canvas: frosted cards over drifting lights, a wave with beads, spaced type.
export function mount(root, { width, height }) {
  const u = height / 1080;
  root.style.background = "linear-gradient(125deg,#13294b,#47306f 55%,#d9605f)";
  const make = (css, parent = root, text = "") => {
    const element = document.createElement("div");
    element.style.cssText = css;
    element.textContent = text;
    parent.appendChild(element);
    return element;
  };
  const lights = ["#fff08a", "#66ccff", "#ff6fae"].map((color) =>
    make(`position:absolute;width:${430 * u}px;height:${430 * u}px;border-radius:50%;background:${color};filter:blur(${38 * u}px);opacity:.6`));
  const cards = Array.from({ length: 6 }, (_, i) => {
    const card = make(`position:absolute;box-sizing:border-box;width:${520 * u}px;height:${300 * u}px;border-radius:${28 * u}px;background:rgba(255,255,255,.15);backdrop-filter:blur(${14 * u}px);box-shadow:0 ${20 * u}px ${60 * u}px rgba(0,0,0,.35);border:1px solid rgba(255,255,255,.3);padding:${32 * u}px;color:#fff;font:400 ${30 * u}px/1.4 "DejaVu Sans",sans-serif`);
    make(`font-size:${46 * u}px;font-weight:700;margin-bottom:${12 * u}px`, card, `Panel ${i + 1}`);
    make("opacity:.85", card, "Frosted glass: what lies behind is blurred again for each frame.");
    return card;
  });
  const name = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(name, "svg");
  svg.setAttribute("viewBox", "0 0 1920 1080");
  svg.style.cssText = "position:absolute;inset:0;width:100%;height:100%";
  root.appendChild(svg);
  const wave = document.createElementNS(name, "path");
  wave.setAttribute("fill", "none");
  wave.setAttribute("stroke", "#ffd27a");
  wave.setAttribute("stroke-width", "8");
  svg.appendChild(wave);
  const beads = Array.from({ length: 24 }, () => {
    const bead = document.createElementNS(name, "circle");
    bead.setAttribute("r", "9");
    bead.setAttribute("fill", "#fff");
    svg.appendChild(bead);
    return bead;
  });
  const title = make(`position:absolute;left:5%;top:4%;color:#fff;font:800 ${84 * u}px "DejaVu Sans",sans-serif`, root, "Frosted panels");

  return (seconds) => {
    cards.forEach((card, i) => {
      const x = (120 + (i % 3) * 580 + Math.sin(seconds * 1.3 + i) * 60) * u;
      const y = (260 + Math.floor(i / 3) * 380 + Math.cos(seconds + i * 0.7) * 40) * u;
      card.style.transform = `translate(${x}px,${y}px) rotate(${Math.sin(seconds * 0.8 + i) * 4}deg)`;
      card.style.opacity = String(0.75 + 0.25 * Math.sin(seconds * 2 + i));
    });
    lights.forEach((light, i) => {
      light.style.transform = `translate(${(720 + Math.sin(seconds * 0.6 + i * 2) * 700) * u}px,${(330 + Math.cos(seconds * 0.9 + i) * 300) * u}px)`;
    });
    const at = (x) => 880 + Math.sin(x * 0.006 + seconds * 3) * 60;
    let line = "";
    for (let x = 0; x <= 1920; x += 24) line += `${x ? "L" : "M"}${x} ${at(x).toFixed(2)}`;
    wave.setAttribute("d", line);
    beads.forEach((bead, i) => {
      bead.setAttribute("cx", String(40 + i * 80));
      bead.setAttribute("cy", (at(40 + i * 80) - 24).toFixed(2));
    });
    title.style.letterSpacing = `${(2 + 2 * Math.sin(seconds)) * u}px`;
  };
}
