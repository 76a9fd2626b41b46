onmessage = ({ data: [flat, deep] }) => {
  const g = flat.getContext("2d"), gl = deep.getContext("webgl2", { antialias: false });
  let beats = 0;
  setInterval(() => { beats += 1; }, 100);
  requestAnimationFrame(function frame(ms) {
    g.fillStyle = "#1b4332"; g.fillRect(0, 0, 160, 180);
    for (let i = 0; i < 12; i++) {
      const at = ms / 500 + i / 2;
      g.fillStyle = `hsl(${i * 30} 90% 65%)`;
      g.fillRect(70 + Math.cos(at) * 56, 80 + Math.sin(at) * 66, 18, 18);
    }
    g.fillStyle = "#fff"; g.fillRect(10, 168, beats * 12, 8); // @gone
    gl.clearColor(0.2, ms / 1000, 0.6, 1); gl.clear(gl.COLOR_BUFFER_BIT);
    gl.enable(gl.SCISSOR_TEST); gl.scissor(20, 20 + ms / 10, 60, 40); gl.clearColor(1, 0.8, 0, 1); gl.clear(gl.COLOR_BUFFER_BIT);
    gl.disable(gl.SCISSOR_TEST);
    requestAnimationFrame(frame);
  });
};
