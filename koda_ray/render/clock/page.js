// A page's clock, or that of a frame in it: what moves by itself in a browser is set to the frame's time instead. CSS
// animations, transitions, Web Animations, SVG animations, film and sound; then it says what is still coming.
((clock) => {
  const MAX_PENDING_NAMES = 8, MAX_CHARS = 4000;
  const MIN_OFFSET_MS = 34; // an animation this young has run by itself since it began, not been set by the page
  const native = {
    fetch: window.fetch.bind(window),
    raf: clock.native.requestAnimationFrame.bind(window),
    getAnimations: Document.prototype.getAnimations,
    shadowAnimations: ShadowRoot.prototype.getAnimations,
    currentTime: Object.getOwnPropertyDescriptor(Animation.prototype, "currentTime"),
    timelineTime: Object.getOwnPropertyDescriptor(AnimationTimeline.prototype, "currentTime").get,
    attachShadow: Element.prototype.attachShadow,
    length: Object.getOwnPropertyDescriptor(window, "length").get.bind(window),
  };
  let loaded = false; // what is written after that is never complete, and there
  addEventListener("load", (event) => { if (event.target === document) loaded = true; }, true);
  window.__kodaProps = __PROPS__;
  clock.define(AnimationTimeline.prototype, "currentTime", () => clock.now());

  // ---- roots ----------------------------------------------------------------------------------------------------
  const shadows = new Set();
  const changed = new Set(); // what is new since it was looked at
  const watcher = new MutationObserver((records) => collect(records));
  const watch = (root) => watcher.observe(root, { subtree: true, childList: true, attributes: true, attributeFilter: ["class", "style"] });
  watch(document);
  const known = new WeakSet();
  const know = (root) => {
    if (known.has(root)) return;
    known.add(root);
    shadows.add(new WeakRef(root));
    changed.add(root);
    watch(root);
  };
  Element.prototype.attachShadow = function attachShadow(options) {
    const root = native.attachShadow.call(this, options);
    know(root);
    return root;
  };
  const roots = () => {
    const found = [document];
    for (const reference of shadows) {
      const root = reference.deref();
      if (!root) shadows.delete(reference);
      else if (root.host.isConnected) found.push(root);
    }
    return found;
  };
  const media = kodaMedia(clock, roots);

  // ---- animations -----------------------------------------------------------------------------------------------
  const held = new Map(); // Animation -> {base: virtual time at its currentTime 0, last: what was set}
  const put = new WeakMap(); // what the page put an animation to itself
  Object.defineProperty(Animation.prototype, "currentTime", {
    ...native.currentTime,
    set(time) { native.currentTime.set.call(this, time); put.set(this, time); },
  });
  const animations = () => roots().flatMap((root) => (root === document ? native.getAnimations : native.shadowAnimations).call(root));
  const syncAnimations = () => {
    const now = clock.now();
    for (const animation of animations()) {
      if (animation.timeline !== document.timeline) continue; // it goes by scrolling, or by nothing
      const state = held.get(animation);
      const playing = animation.playState === "running";
      if (!playing && !(state && animation.playState === "finished")) continue; // paused by the page, or idle
      const at = Number(animation.currentTime ?? 0);
      const offset = Math.abs(at) < MIN_OFFSET_MS ? 0 : at / (animation.playbackRate || 1);
      if (!state) held.set(animation, { base: now - offset, set: null }); // it just began
      else if (playing && state.set !== null) state.base = now - at / (animation.playbackRate || 1); // played again
    }
    for (const [animation, state] of held) {
      if (animation.playState === "idle") { held.delete(animation); continue; }
      if (animation.playState === "paused" && state.set !== null && animation.currentTime !== state.set) {
        state.base = now - Number(animation.currentTime ?? 0) / (animation.playbackRate || 1); // the page moved it
      }
      const time = (now - state.base) * animation.playbackRate;
      const end = animation.effect ? animation.effect.getComputedTiming().endTime : Infinity;
      if (animation.playbackRate < 0 ? time <= 0 : Number.isFinite(end) && time >= end) {
        if (animation.playState !== "finished") animation.finish();
        state.set = null;
      } else {
        animation.pause();
        native.currentTime.set.call(animation, time);
        state.set = animation.currentTime;
      }
    }
    for (const root of roots()) {
      for (const svg of root.querySelectorAll("svg")) {
        if (svg.ownerSVGElement || !svg.pauseAnimations) continue;
        svg.pauseAnimations();
        svg.setCurrentTime(now / 1000);
      }
    }
  };

  // ---- sharpness ------------------------------------------------------------------------------------------------
  // `will-change: transform` keeps a layer at the resolution it was first drawn with: blurred when it grows, and another
  // picture for a unit that begins later. `filter` makes the same stacking context and containing block without that.
  const HINTS = /\b(transform|scale|rotate|translate|perspective)\b/;
  let looked = false;
  const collect = (records) => {
    for (const { target, type, addedNodes } of records) {
      if (type === "attributes") changed.add(target);
      else for (const node of addedNodes) if (node.nodeType === 1) changed.add(node);
    }
  };
  const soften = (element) => {
    if (element.shadowRoot) know(element.shadowRoot); // one that was written as HTML
    if (element.style && HINTS.test(getComputedStyle(element).willChange)) {
      element.style.setProperty("will-change", "filter", "important");
    }
  };
  const sharpen = () => {
    collect(watcher.takeRecords());
    if (!looked && document.documentElement) changed.add(document.documentElement);
    looked = true;
    for (const root of changed) { // what is found on the way is looked at too
      soften(root);
      for (const element of root.querySelectorAll("*")) soften(element);
    }
    changed.clear();
    watcher.takeRecords();
  };

  // ---- what is still coming -------------------------------------------------------------------------------------
  const requests = new Map();
  window.fetch = (input, init) => {
    const key = {};
    requests.set(key, String((input && input.url) || input));
    return native.fetch(input, init).finally(() => clock.soon(() => requests.delete(key)));
  };
  const open = XMLHttpRequest.prototype.open, send = XMLHttpRequest.prototype.send;
  XMLHttpRequest.prototype.open = function (method, url, ...rest) { this.__kodaUrl = String(url); return open.call(this, method, url, ...rest); };
  XMLHttpRequest.prototype.send = function (body) {
    requests.set(this, this.__kodaUrl);
    this.addEventListener("loadend", () => requests.delete(this));
    try { return send.call(this, body); } catch (error) { requests.delete(this); throw error; }
  };
  const short = (text) => String(text).slice(0, MAX_CHARS);
  const coming = () => {
    const names = [];
    if (!loaded && document.readyState !== "complete") names.push("the document's load event");
    for (const image of document.images) if (!image.complete && image.loading !== "lazy") names.push(`image ${image.currentSrc || image.src}`);
    if (document.fonts && document.fonts.status === "loading") names.push("fonts");
    for (const url of requests.values()) names.push(`request ${url}`);
    names.push(...clock.workers(), ...media.pending());
    for (const { pending } of frames()) names.push(...pending());
    return names.slice(0, MAX_PENDING_NAMES).map(short);
  };
  // Without it a shader is compiled when it is first used, before the picture is taken; with it, some time later.
  const LATER = "KHR_parallel_shader_compile";
  for (const { prototype } of [WebGLRenderingContext, WebGL2RenderingContext]) {
    const { getExtension, getSupportedExtensions } = prototype;
    prototype.getExtension = function (name) { return name === LATER ? null : getExtension.call(this, name); };
    prototype.getSupportedExtensions = function () { return (getSupportedExtensions.call(this) || []).filter((name) => name !== LATER); };
  }
  delete window.SharedWorker; // nobody could move its clock
  if (window.ServiceWorkerContainer) ServiceWorkerContainer.prototype.register = () => Promise.reject(new DOMException("service workers are off in a render", "SecurityError"));
  delete window.RTCPeerConnection; delete window.webkitRTCPeerConnection;
  for (const name of ["moveBy", "moveTo", "resizeBy", "resizeTo"]) window[name] = () => {}; // a picture has one size
  window.open = () => null; // as where a browser blocks it
  for (const [owner, ...names] of [["CredentialsContainer", "create", "get"], ["MediaDevices", "getDisplayMedia"]]) {
    for (const name of window[owner] ? names : []) { // nobody is there to be asked
      window[owner].prototype[name] = () => Promise.reject(new DOMException("nobody watches a render", "NotAllowedError"));
    }
  }

  // ---- frames in the page ---------------------------------------------------------------------------------------
  const bases = new WeakMap(); // a frame's clock -> what time it was here when the frame began
  const frames = () => {
    const found = [];
    for (let i = 0; i < native.length(); i++) {
      try {
        if (window[i].__kodaRender) found.push(window[i].__kodaRender);
      } catch { continue; } // another origin's: nobody may look in
    }
    return found;
  };
  const beginFrames = async (all) => {
    for (const inner of frames()) {
      if (bases.has(inner) && !all) continue;
      bases.set(inner, clock.now());
      await inner.begin();
    }
  };
  const moveFrames = async () => {
    await beginFrames(false);
    for (const inner of frames()) await inner.frame(clock.now() - bases.get(inner)) ?? await inner.rest();
  };

  // ---- the page's own contract ----------------------------------------------------------------------------------
  let contract = null; // {ready: "pending" | "yes" | message, seek}
  const findContract = () => {
    if (contract) return;
    const koda = window.__koda;
    if (koda && typeof koda.seek === "function") {
      contract = { ready: "pending", seek: (s) => koda.seek(s), name: "window.__koda.ready" };
      Promise.resolve(koda.ready).then(() => { contract.ready = "yes"; }, (e) => { contract.ready = short(`window.__koda.ready was rejected: ${e && e.message || e}`); contract.stack = short(e && e.stack || ""); });
    } else if (typeof window.__exportSeekTo === "function") {
      contract = { get ready() { return window.__exportReady === true ? "yes" : "pending"; }, seek: (s) => window.__exportSeekTo(s), name: "window.__exportReady" };
    }
  };
  const waitsFor = () => {
    try {
      const names = window.__koda.pending();
      return names.length ? ` (${names.slice(0, MAX_PENDING_NAMES).map(short).join(", ")})` : "";
    } catch { return ""; } // only some pages can say
  };
  const status = () => {
    findContract();
    const pending = coming();
    const waits = contract && contract.ready === "pending";
    if (waits) pending.push(contract.name + waitsFor());
    return {
      pending, contract: !!contract, stuck: waits && pending.length === 1,
      failed: contract && contract.ready !== "pending" && contract.ready !== "yes" ? contract.ready : null,
      stack: contract && contract.stack || "",
    };
  };
  // A contract page that waits for a timer or a frame before it is ready gets them; its seek sets the state afterwards.
  const bootTick = async () => {
    await clock.tick();
    for (const inner of frames()) await inner.bootTick();
  };
  // What began while the page loaded begins now; what the page put to another time keeps that.
  const beginAnimations = () => {
    const passed = MIN_OFFSET_MS + Number(native.timelineTime.call(document.timeline) ?? 0);
    const begun = animations().map((animation) => [animation, Number(put.get(animation) ?? animation.currentTime ?? 0)]);
    syncAnimations();
    for (const [animation, at] of begun) {
      const state = held.get(animation), rate = animation.playbackRate || 1;
      if (!state) continue;
      const end = animation.effect ? Number(animation.effect.getComputedTiming().endTime) : Infinity;
      const first = rate < 0 && Number.isFinite(end) ? end : 0; // where it is when it begins
      state.base = -(!put.has(animation) && Math.abs(at - first) < passed * Math.abs(rate) ? first : at) / rate;
    }
    syncAnimations();
  };
  const begin = async () => {
    findContract();
    await clock.begin();
    sharpen();
    media.look();
    beginAnimations();
    media.rebase();
    await beginFrames(true);
    const koda = window.__koda || {};
    const number = (value) => (Number.isFinite(value) ? value : null);
    const size = koda.size || {};
    return { contract: !!contract, duration: number(koda.duration), fps: number(koda.fps), width: number(size.width), height: number(size.height) };
  };

  // Move to a time. The page's own callbacks first, then its contract, then everything the browser plays.
  const frame = async (ms) => {
    await clock.moveTimers(ms);
    media.place();
    return media.pending().length ? null : rest(); // what draws a film wants it to be there
  };
  const rest = async () => {
    const ms = clock.now();
    await clock.moveFrame();
    if (contract) {
      clock.seed(ms * 1000 + 3);
      let done = false;
      const seek = Promise.resolve(contract.seek(ms / 1000)).finally(() => { done = true; });
      seek.catch(() => {});
      for (let i = 0; i < 64 && !done; i++) {
        await clock.task();
        if (!done && i % 4 === 3) { await clock.fireTimers(clock.now()); await clock.fireFrames(); }
      }
      await seek;
      await clock.settle();
    }
    return again();
  };
  // What arrived meanwhile (a frame's page, a film) has to be put to this time too.
  const again = async () => {
    await moveFrames();
    sharpen();
    syncAnimations();
    media.place();
    return coming();
  };
  const api = {
    status, bootTick, begin, frame, rest, again, films: media.pending, pending: coming,
    painted: () => new Promise((resolve) => native.raf(() => native.raf(() => resolve(true)))),
  };
  Object.defineProperty(window, "__kodaRender", { value: Object.freeze(api), enumerable: false });
})(kodaClock(window, __SEED__));
