// Canvases of the page that are drawn to elsewhere (`transferControlToOffscreen`): by workers, above all.
//
// Chromium shows such a drawing by a path of its own: the worker's thread hands a picture to the compositor, and the
// page hears from the browser's process under which name to embed it. No frame of the page waits for either. Here the
// page's canvas shows pictures that come with the worker's answers, so each is part of its frame; and with its last words,
// for what a worker drew stays when it closes itself or is ended.
//
// What is handed over is a canvas of nobody, whose size says which of the page's it draws: a size is all that such a
// canvas takes along wherever it is sent. Nobody sees that, and its true size is set once it has a context.
//
// Not seen: what WebGPU draws elsewhere, for nothing says here when it has drawn; what a page draws on a canvas of a frame
// in it (a frame may draw on the page's).
const kodaOffscreen = (clock) => {
  const TAG = 2 ** 30, SIDE = 65536, MAX_CANVASES = 2 ** 15, MAX_REALMS = 2 ** 14;
  const DRAWS = /^(clear|draw|fill|put|stroke|transferFrom)|^reset$/;
  const { OffscreenCanvas, HTMLCanvasElement, createImageBitmap, OffscreenCanvasRenderingContext2D, ImageBitmapRenderingContext } = globalThis;
  const picture = createImageBitmap.bind(globalThis);
  const own = (type, name) => Object.getOwnPropertyDescriptor(type.prototype, name);
  const sides = (type) => ["width", "height"].map((name) => own(type, name));
  const sizeOf = ([width, height], canvas) => [width.get.call(canvas), height.get.call(canvas)];
  const resize = ([width, height], canvas, size) => { width.set.call(canvas, size[0]); height.set.call(canvas, size[1]); };

  // ---- where it is drawn ----------------------------------------------------------------------------------------
  const native = { sides: sides(OffscreenCanvas), getContext: OffscreenCanvas.prototype.getContext };
  const drawn = new Map(); // context -> {id: the page's canvas, isNew: whether it was drawn to since it was shown}
  const contexts = new WeakMap(); // canvas -> context
  const told = (canvas) => { // what its size says: which it is, and how large
    const [width, height] = sizeOf(native.sides, canvas);
    const id = Math.floor((width - TAG) / SIDE) * MAX_CANVASES + Math.floor(height / SIDE);
    return width >= TAG ? { id, size: [width % SIDE, height % SIDE] } : null;
  };
  const note = (context) => {
    const state = drawn.get(context);
    if (state) state.isNew = true;
  };
  for (const [axis, name] of ["width", "height"].entries()) {
    Object.defineProperty(OffscreenCanvas.prototype, name, {
      ...native.sides[axis],
      get() { return told(this)?.size[axis] ?? native.sides[axis].get.call(this); },
      set(value) {
        const was = told(this);
        native.sides[axis].set.call(this, value);
        if (was) resize(native.sides, this, tagged(was.id, was.size.with(axis, native.sides[axis].get.call(this))));
        else note(contexts.get(this));
      },
    });
  }
  const tagged = (id, [width, height]) => [TAG + Math.floor(id / MAX_CANVASES) * SIDE + width, (id % MAX_CANVASES) * SIDE + height];
  OffscreenCanvas.prototype.getContext = function getContext(...given) {
    const was = told(this);
    if (!was) return Reflect.apply(native.getContext, this, given);
    resize(native.sides, this, was.size);
    let context = null;
    try {
      context = kodaCanvas.contextOf(native.getContext, this, given);
    } finally {
      if (!context) resize(native.sides, this, tagged(was.id, was.size)); // it may still be sent on
    }
    if (context) {
      contexts.set(this, context);
      drawn.set(context, { id: was.id, isNew: false });
      clock.draws();
    }
    return context;
  };
  for (const type of [OffscreenCanvasRenderingContext2D, ImageBitmapRenderingContext]) {
    for (const name of Object.getOwnPropertyNames(type.prototype).filter((one) => DRAWS.test(one))) {
      const { value } = own(type, name);
      if (typeof value === "function") type.prototype[name] = { [name](...given) { note(this); return Reflect.apply(value, this, given); } }[name];
    }
  }
  const { transferToImageBitmap } = OffscreenCanvas.prototype; // it leaves nothing behind
  OffscreenCanvas.prototype.transferToImageBitmap = function () { note(contexts.get(this)); return transferToImageBitmap.call(this); };
  const isNew = (context, state) => (context.drawingBufferWidth === undefined ? state.isNew : kodaCanvas.isDrawn(context) || state.isNew);
  const fresh = () => { // what was drawn to since it was shown: pairs of which canvas of the page it is, and what draws it
    const found = [];
    for (const [context, state] of drawn) {
      if (!isNew(context, state)) continue;
      state.isNew = false;
      if (sizeOf(native.sides, context.canvas).every(Boolean)) found.push([state.id, context.canvas]);
    }
    return found;
  };
  // Pairs of which canvas of the page was drawn to, here and by workers, and its picture.
  const show = async () => {
    const found = [];
    for (const [id, canvas] of fresh()) found.push([id, await picture(canvas)]);
    return [...found, ...await clock.drawnByWorkers()];
  };
  // The same where this ends: what is drawn here is taken within the task, for there is no other.
  const last = async () => [...fresh().map(([id, canvas]) => [id, transferToImageBitmap.call(canvas)]), ...await clock.drawnByWorkers()];
  if (!HTMLCanvasElement) return { show, last };

  // ---- where it is seen -----------------------------------------------------------------------------------------
  const page = { sides: sides(HTMLCanvasElement), getContext: HTMLCanvasElement.prototype.getContext, transfer: HTMLCanvasElement.prototype.transferControlToOffscreen };
  const seen = new Map(); // id -> canvas, as long as somebody has it
  const strays = new Map(); // id -> picture of a canvas that is not this page's, but of one around it
  const isInner = parent !== window; // frames in the page count canvases too: each has a number of its own, the page 0
  const realm = isInner ? 1 + clock.native.random.call(crypto, new Uint32Array(1))[0] % (MAX_REALMS - 1) : 0;
  const renderers = new WeakMap(), taken = new WeakSet(); // what shows it; canvases that the page draws on itself
  const refuse = (canvas) => {
    if (renderers.has(canvas)) throw new DOMException("the canvas's control was transferred to an OffscreenCanvas", "InvalidStateError");
  };
  for (const [axis, name] of ["width", "height"].entries()) {
    Object.defineProperty(HTMLCanvasElement.prototype, name, { ...page.sides[axis], set(value) { refuse(this); page.sides[axis].set.call(this, value); } });
  }
  HTMLCanvasElement.prototype.getContext = function getContext(...given) {
    refuse(this);
    const context = Reflect.apply(page.getContext, this, given);
    if (context) taken.add(this);
    return context;
  };
  HTMLCanvasElement.prototype.transferControlToOffscreen = function transferControlToOffscreen() {
    refuse(this);
    const size = sizeOf(page.sides, this), id = realm * MAX_CANVASES + seen.size;
    if (taken.has(this) || seen.size >= MAX_CANVASES || Math.max(...size) >= SIDE) return page.transfer.call(this);
    renderers.set(this, page.getContext.call(this, "bitmaprenderer"));
    seen.set(id, new WeakRef(this));
    return new OffscreenCanvas(...tagged(id, size));
  };
  // Show what was drawn, also in frames in the page: what they could not place.
  const place = async (theirs) => {
    for (const [id, bitmap] of [...await show(), ...theirs]) {
      const canvas = seen.get(id)?.deref(), { width, height } = bitmap;
      if (isInner && !seen.has(id)) strays.set(id, bitmap);
      if (!canvas) continue;
      const [wide, high] = sizeOf(page.sides, canvas);
      if (wide !== width || high !== height) resize(page.sides, canvas, [width, height]);
      renderers.get(canvas).transferFromImageBitmap(bitmap);
    }
  };
  const takeStrays = () => {
    const found = [...strays];
    strays.clear();
    return found;
  };
  return { place, takeStrays };
};
