// WebGL in a page whose frames are all shown: nothing is left for later, and nothing is cleared twice.
//
// A drawing buffer that was shown is cleared before it is drawn to again. Chromium does so at the page's first drawing,
// wherever that goes: to a shadow map, say, and then the page clears the buffer itself. Four samples a pixel of a 1080p
// page take 8 ms of a processor for that. Here the buffer is kept, and cleared at the first drawing to itself, unless
// the page does that.
const kodaCanvas = (() => {
  const FRAMEBUFFER = 0x8ca6, COLOR = 0x4000, DEPTH = 0x100, STENCIL = 0x400, SCISSOR = 0xc11, DISCARD = 0x8c89;
  const COLOR_MASK = 0xc23, DEPTH_MASK = 0xb72, STENCIL_MASKS = [[0x404, 0xb98], [0x405, 0x8ca5]]; // front, back
  const CLEAR_COLOR = 0xc22, CLEAR_DEPTH = 0xb73, CLEAR_STENCIL = 0xb91;
  const DRAWS = [
    "drawArrays", "drawElements", "drawArraysInstanced", "drawElementsInstanced", "drawRangeElements", "clearBufferfv",
    "clearBufferiv", "clearBufferuiv", "clearBufferfi", "blitFramebuffer", "readPixels", "copyTexImage2D", "copyTexSubImage2D",
    "copyTexSubImage3D",
  ];
  const DRAWING = /^(multiD|d)raw(Arrays|Elements)/; // what extensions draw with
  // Without it a shader is compiled when it is first used, before the picture is taken; with it, some time later.
  const LATER = "KHR_parallel_shader_compile";
  const kept = new WeakMap(); // context -> {frame: when it was cleared, all: what there is to clear, alpha}
  let frame = 0;

  for (const { prototype } of [WebGLRenderingContext, WebGL2RenderingContext]) {
    const native = Object.fromEntries(Object.getOwnPropertyNames(prototype).flatMap((name) => {
      const { value } = Object.getOwnPropertyDescriptor(prototype, name);
      return typeof value === "function" ? [[name, (gl, ...given) => Reflect.apply(value, gl, given)]] : [];
    }));
    const is = (gl, name) => native.getParameter(gl, name);
    const isWhole = (gl, state, mask) => // whether the page's own clearing leaves nothing of what was there
      (mask & state.all) === state.all && !native.isEnabled(gl, SCISSOR) && !(native.beginTransformFeedback && native.isEnabled(gl, DISCARD)) &&
      is(gl, COLOR_MASK).every(Boolean) && (!(state.all & DEPTH) || is(gl, DEPTH_MASK)) &&
      (!(state.all & STENCIL) || (is(gl, STENCIL_MASKS[0][1]) & 255) === 255);
    const clear = (gl, state) => {
      const on = [SCISSOR, DISCARD].filter((name) => (name !== DISCARD || native.beginTransformFeedback) && native.isEnabled(gl, name));
      const masks = is(gl, COLOR_MASK), depth = is(gl, DEPTH_MASK), stencils = STENCIL_MASKS.map(([face, name]) => [face, is(gl, name)]);
      const was = [is(gl, CLEAR_COLOR), is(gl, CLEAR_DEPTH), is(gl, CLEAR_STENCIL)];
      for (const name of on) native.disable(gl, name);
      native.colorMask(gl, true, true, true, true);
      native.depthMask(gl, true);
      for (const [face] of stencils) native.stencilMaskSeparate(gl, face, 0xffffffff);
      native.clearColor(gl, 0, 0, 0, state.alpha ? 0 : 1);
      native.clearDepth(gl, 1);
      native.clearStencil(gl, 0);
      native.clear(gl, state.all);
      native.clearColor(gl, ...was[0]);
      native.clearDepth(gl, was[1]);
      native.clearStencil(gl, was[2]);
      for (const [face, mask] of stencils) native.stencilMaskSeparate(gl, face, mask);
      native.depthMask(gl, depth);
      native.colorMask(gl, ...masks);
      for (const name of on) native.enable(gl, name);
    };
    const before = (gl, mask) => {
      const state = kept.get(gl);
      if (!state || state.frame === frame || is(gl, FRAMEBUFFER) || native.isContextLost(gl)) return;
      state.frame = frame;
      if (!isWhole(gl, state, mask)) clear(gl, state);
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
      if (String(name) === LATER) return null;
      const found = native.getExtension(this, name);
      const methods = found && Object.getPrototypeOf(found);
      if (!methods || !Object.getOwnPropertyNames(methods).some((method) => DRAWING.test(method))) return found;
      owners.set(found, this);
      if (known.has(methods)) return found;
      known.add(methods);
      for (const method of Object.getOwnPropertyNames(methods)) if (DRAWING.test(method)) wrap(methods, method, (extension) => owners.get(extension));
      return found;
    };
    prototype.getSupportedExtensions = function getSupportedExtensions() { return (native.getSupportedExtensions(this) || []).filter((name) => name !== LATER); };
  }

  const met = new WeakSet();
  // A canvas's context, by the getContext that it is given with; one of WebGL so that its buffer is kept.
  const contextOf = (getContext, canvas, [kind, ...given]) => {
    const asked = given[0] ?? {};
    if (!/^(experimental-webgl|webgl2?)$/.test(String(kind)) || typeof asked !== "object") return Reflect.apply(getContext, canvas, [kind, ...given]);
    const keeps = !!asked.preserveDrawingBuffer;
    const gl = Reflect.apply(getContext, canvas, [kind, Object.create(asked, { preserveDrawingBuffer: { value: true } })]);
    if (!gl || met.has(gl)) return gl;
    met.add(gl);
    const { alpha, depth, stencil } = gl.getContextAttributes() ?? {};
    if (!keeps) kept.set(gl, { frame, all: COLOR | (depth ? DEPTH : 0) | (stencil ? STENCIL : 0), alpha });
    return gl;
  };
  if (globalThis.HTMLCanvasElement) {
    const { getContext } = HTMLCanvasElement.prototype;
    HTMLCanvasElement.prototype.getContext = function (...given) { return contextOf(getContext, this, given); };
  }
  const isDrawn = (gl) => (kept.get(gl)?.frame ?? frame) === frame; // as far as one can tell
  return { contextOf, isDrawn, next: () => { frame += 1; } };
})();
