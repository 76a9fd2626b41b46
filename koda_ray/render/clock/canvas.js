// WebGL in a page whose frames are all shown: nothing is left for later, and nothing is cleared twice.
//
// A drawing buffer that was shown is cleared before it is drawn to again. Chromium does so at the page's first drawing,
// wherever that goes: to a shadow map, say, and then the page clears the buffer itself. Four samples a pixel of a 1080p
// page take 8 ms of a processor for that. Here the buffer is kept, and cleared at the first drawing to itself, unless
// the page does that.
const kodaCanvas = (() => {
  const FRAMEBUFFER = 0x8ca6, COLOR = 0x4000, DEPTH = 0x100, STENCIL = 0x400, SCISSOR = 0xc11, DISCARD = 0x8c89;
  const COLOR_MASK = 0xc23, DEPTH_MASK = 0xb72, CLEAR_COLOR = 0xc22, CLEAR_DEPTH = 0xb73, CLEAR_STENCIL = 0xb91;
  const FRONT = 0x404, BACK = 0x405, BOTH = 0x408, STENCIL_MASK = 0xb98, STENCIL_BACK_MASK = 0x8ca5;
  const DRAWS = [
    "drawArrays", "drawElements", "drawArraysInstanced", "drawElementsInstanced", "drawRangeElements", "clearBufferfv",
    "clearBufferiv", "clearBufferuiv", "clearBufferfi", "blitFramebuffer", "readPixels", "copyTexImage2D", "copyTexSubImage2D",
    "copyTexSubImage3D",
  ];
  const DRAWING = /^(multiD|d)raw(Arrays|Elements)/; // what extensions draw with
  // Without it a shader is compiled when it is first used, before the picture is taken; with it, some time later.
  const LATER = "khr_parallel_shader_compile";
  const INDEXED = "oes_draw_buffers_indexed"; // with it a buffer has a mask of its own
  const kept = new WeakMap(); // context -> {frame: when it was cleared, all: what there is to clear, alpha, said}
  let frame = 0;

  for (const { prototype } of [WebGLRenderingContext, WebGL2RenderingContext]) {
    const native = Object.fromEntries(Object.getOwnPropertyNames(prototype).flatMap((name) => {
      const { value } = Object.getOwnPropertyDescriptor(prototype, name);
      return typeof value === "function" ? [[name, (gl, ...given) => Reflect.apply(value, gl, given)]] : [];
    }));
    // What a page says of clearing is remembered: to ask for it is to wait until all is drawn that was asked for before.
    const asked = (gl) => ({
      color: native.getParameter(gl, COLOR_MASK), depth: native.getParameter(gl, DEPTH_MASK),
      front: native.getParameter(gl, STENCIL_MASK), back: native.getParameter(gl, STENCIL_BACK_MASK),
      clearColor: native.getParameter(gl, CLEAR_COLOR), clearDepth: native.getParameter(gl, CLEAR_DEPTH),
      clearStencil: native.getParameter(gl, CLEAR_STENCIL),
    });
    const remember = (name, noted) => {
      prototype[name] = { [name](...given) {
        native[name](this, ...given);
        const said = kept.get(this)?.said;
        if (said && !native.isContextLost(this)) noted(said, ...given);
      } }[name];
    };
    remember("colorMask", (said, ...given) => { said.color = given.slice(0, 4).map(Boolean); });
    remember("depthMask", (said, on) => { said.depth = Boolean(on); });
    remember("stencilMask", (said, mask) => { said.front = said.back = mask >>> 0; });
    remember("stencilMaskSeparate", (said, face, mask) => {
      if (+face === FRONT || +face === BOTH) said.front = mask >>> 0;
      if (+face === BACK || +face === BOTH) said.back = mask >>> 0;
    });
    remember("clearColor", (said, ...given) => { said.clearColor = given.slice(0, 4).map(Number); });
    remember("clearDepth", (said, depth) => { said.clearDepth = Number(depth); });
    remember("clearStencil", (said, stencil) => { said.clearStencil = stencil | 0; });
    const isWhole = (gl, state, said, mask) => // whether the page's own clearing leaves nothing of what was there
      (mask & state.all) === state.all && !native.isEnabled(gl, SCISSOR) && !(native.beginTransformFeedback && native.isEnabled(gl, DISCARD)) &&
      said.color.every(Boolean) && (!(state.all & DEPTH) || said.depth) && (!(state.all & STENCIL) || (said.front & 255) === 255);
    const clear = (gl, state, said) => {
      const on = [SCISSOR, DISCARD].filter((name) => (name !== DISCARD || native.beginTransformFeedback) && native.isEnabled(gl, name));
      for (const name of on) native.disable(gl, name);
      native.colorMask(gl, true, true, true, true);
      native.depthMask(gl, true);
      native.stencilMaskSeparate(gl, BOTH, 0xffffffff);
      native.clearColor(gl, 0, 0, 0, state.alpha ? 0 : 1);
      native.clearDepth(gl, 1);
      native.clearStencil(gl, 0);
      native.clear(gl, state.all);
      native.clearColor(gl, ...said.clearColor);
      native.clearDepth(gl, said.clearDepth);
      native.clearStencil(gl, said.clearStencil);
      native.stencilMaskSeparate(gl, FRONT, said.front);
      native.stencilMaskSeparate(gl, BACK, said.back);
      native.depthMask(gl, said.depth);
      native.colorMask(gl, ...said.color);
      for (const name of on) native.enable(gl, name);
    };
    const before = (gl, mask) => {
      const state = kept.get(gl);
      if (!state || state.frame === frame || native.getParameter(gl, FRAMEBUFFER)) return;
      if (native.isContextLost(gl)) { state.said = null; return; }
      state.frame = frame;
      const said = state.said ?? asked(gl);
      if (!isWhole(gl, state, said, mask)) clear(gl, state, said);
    };
    const wrap = (target, name, context) => {
      const { value } = Object.getOwnPropertyDescriptor(target, name);
      target[name] = { [name](...given) {
        before(context ? context(this) : this, 0);
        return Reflect.apply(value, this, given);
      } }[name];
    };
    for (const name of DRAWS) if (native[name]) wrap(prototype, name);
    prototype.clear = function clear(mask) { before(this, mask); return native.clear(this, mask); };
    prototype.getContextAttributes = function getContextAttributes() {
      const found = native.getContextAttributes(this);
      if (found && kept.has(this)) found.preserveDrawingBuffer = false;
      return found;
    };
    const owners = new WeakMap(), known = new WeakSet(); // of extensions
    prototype.getExtension = function getExtension(name) {
      const called = String(name).toLowerCase();
      if (called === LATER) return null;
      const found = native.getExtension(this, name);
      if (called === INDEXED && kept.has(this)) kept.get(this).said = null;
      const methods = found && Object.getPrototypeOf(found);
      if (!methods || !Object.getOwnPropertyNames(methods).some((method) => DRAWING.test(method))) return found;
      owners.set(found, this);
      if (known.has(methods)) return found;
      known.add(methods);
      for (const method of Object.getOwnPropertyNames(methods)) if (DRAWING.test(method)) wrap(methods, method, (extension) => owners.get(extension));
      return found;
    };
    prototype.getSupportedExtensions = function getSupportedExtensions() { return (native.getSupportedExtensions(this) || []).filter((name) => name.toLowerCase() !== LATER); };
  }

  const asInitially = () => ({
    color: [true, true, true, true], depth: true, front: 0xffffffff, back: 0xffffffff, clearColor: [0, 0, 0, 0], clearDepth: 1, clearStencil: 0,
  });
  const listen = EventTarget.prototype.addEventListener;
  const met = new WeakSet();
  let contexts = 0;
  // A canvas's context, by the getContext that it is given with; one of WebGL so that its buffer is kept.
  const contextOf = (getContext, canvas, [kind, ...given]) => {
    const asked = given[0] ?? {}, isDeep = /^(experimental-webgl|webgl2?)$/.test(String(kind));
    if (typeof asked !== "object" || !(isDeep || asked.desynchronized)) return Reflect.apply(getContext, canvas, [kind, ...given]);
    // what is drawn without regard to the page's frames would be in any of them
    const sure = { desynchronized: { value: false }, ...(isDeep && { preserveDrawingBuffer: { value: true } }) };
    const keeps = !!asked.preserveDrawingBuffer;
    const gl = Reflect.apply(getContext, canvas, [kind, Object.create(asked, sure)]);
    if (!isDeep || !gl || met.has(gl)) return gl;
    met.add(gl);
    contexts += 1;
    const { alpha, depth, stencil } = gl.getContextAttributes() ?? {};
    if (keeps) return gl;
    const state = { frame, all: COLOR | (depth ? DEPTH : 0) | (stencil ? STENCIL : 0), alpha, said: asInitially() };
    kept.set(gl, state);
    Reflect.apply(listen, gl.canvas, ["webglcontextlost", () => { state.said = null; }]); // it begins anew, and is asked from then on
    return gl;
  };
  if (globalThis.HTMLCanvasElement) {
    const { getContext } = HTMLCanvasElement.prototype;
    HTMLCanvasElement.prototype.getContext = function (...given) { return contextOf(getContext, this, given); };
  }
  const isDrawn = (gl) => (kept.get(gl)?.frame ?? frame) === frame; // as far as one can tell
  return { contextOf, isDrawn, isDeep: () => contexts > 0, next: () => { frame += 1; } };
})();
