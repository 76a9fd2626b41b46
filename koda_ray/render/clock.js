// A clock that only the renderer moves, put into a page before any of its scripts.
//
// Time stands at 0 while the page loads. Then `frame` moves it: timers fire in order at their own times, animation
// frame callbacks once a frame, CSS animations, transitions, Web Animations and SVG animations are set to it. Random
// numbers are seeded again at every frame, so that a frame does not depend on which frames were made before it.
// Callbacks run in tasks of their own: promises settle between them as they do in a browser.
(() => {
  const SEED = __SEED__;
  const EPOCH_MS = 1735689600000; // 2025-01-01T00:00:00Z
  const MAX_PENDING_NAMES = 8;
  const MIN_OFFSET_MS = 34; // an animation this young has run by itself since it began, not been set by the page
  const native = {
    Date,
    setTimeout: window.setTimeout.bind(window),
    raf: window.requestAnimationFrame.bind(window),
    fetch: window.fetch.bind(window),
    getAnimations: Document.prototype.getAnimations,
  };
  let now = 0; // milliseconds of virtual time
  window.__kodaProps = __PROPS__;

  // ---- random numbers -------------------------------------------------------------------------------------------
  let a = 0, b = 0, c = 0, counter = 1;
  const next = () => { // sfc32
    const t = (((a + b) | 0) + counter) | 0;
    counter = (counter + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = ((c << 21) | (c >>> 11)) + t | 0;
    return t >>> 0;
  };
  const seed = (value) => {
    a = SEED | 0; b = Math.floor(value) | 0; c = Math.floor(value / 4294967296) | 0; counter = 1;
    for (let i = 0; i < 12; i++) next();
  };
  seed(0xC0DA);
  Math.random = () => (next() * 2097152 + (next() >>> 11)) / 9007199254740992;
  const fill = (view) => {
    const bytes = new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
    for (let i = 0; i < bytes.length; i++) bytes[i] = next();
    return view;
  };
  Crypto.prototype.getRandomValues = function getRandomValues(view) { return fill(view); };
  if (Crypto.prototype.randomUUID) {
    Crypto.prototype.randomUUID = function randomUUID() {
      const h = [...fill(new Uint8Array(16))].map((v, i) => (i === 6 ? (v & 15) | 64 : i === 8 ? (v & 63) | 128 : v).toString(16).padStart(2, "0")).join("");
      return `${h.slice(0, 8)}-${h.slice(8, 12)}-${h.slice(12, 16)}-${h.slice(16, 20)}-${h.slice(20)}`;
    };
  }

  // ---- clocks ---------------------------------------------------------------------------------------------------
  const VirtualDate = function Date(...args) {
    if (!new.target) return new native.Date(EPOCH_MS + now).toString();
    return Reflect.construct(native.Date, args.length ? args : [Math.floor(EPOCH_MS + now)], new.target);
  };
  VirtualDate.prototype = native.Date.prototype;
  VirtualDate.now = () => Math.floor(EPOCH_MS + now);
  VirtualDate.parse = native.Date.parse;
  VirtualDate.UTC = native.Date.UTC;
  Object.defineProperty(VirtualDate, "length", { value: 7 });
  native.Date.prototype.constructor = VirtualDate;
  window.Date = VirtualDate;
  Performance.prototype.now = function () { return now; };
  Object.defineProperty(Performance.prototype, "timeOrigin", { get: () => EPOCH_MS, configurable: true });
  if (window.AnimationTimeline) {
    Object.defineProperty(AnimationTimeline.prototype, "currentTime", { get: () => now, configurable: true });
  }

  // ---- tasks ----------------------------------------------------------------------------------------------------
  const channel = new MessageChannel();
  const waiting = [];
  channel.port1.onmessage = () => waiting.shift()();
  const task = () => new Promise((resolve) => { waiting.push(resolve); channel.port2.postMessage(0); });
  // React and others queue work in tasks; each may queue more. A fixed number, so that every run does the same.
  const settle = async () => { for (let i = 0; i < 4; i++) await task(); };
  const call = (callback, args) => {
    try { callback.apply(window, args); } catch (error) { reportError(error); }
  };

  // ---- timers and animation frames ------------------------------------------------------------------------------
  let ids = 1, orders = 1, nesting = 0;
  const timers = new Map();
  // Beyond five levels the HTML standard waits at least 4 ms; without that a timer of 0 would never let time pass.
  const clamp = (wait, level) => (level > 5 && wait < 4 ? 4 : wait);
  const addTimer = (callback, delay, args, repeat) => {
    const level = nesting + 1, wait = Math.max(repeat ? 1 : 0, Number(delay) || 0), id = ids++;
    const run = typeof callback === "function" ? callback : () => (0, eval)(String(callback));
    timers.set(id, { id, order: orders++, due: now + clamp(wait, level), wait, run, args, repeat, level });
    wake();
    return id;
  };
  window.setTimeout = (callback, delay, ...args) => addTimer(callback, delay, args, false);
  window.setInterval = (callback, delay, ...args) => addTimer(callback, delay, args, true);
  window.clearTimeout = window.clearInterval = (id) => { timers.delete(Number(id)); };
  window.requestIdleCallback = (callback) => addTimer(() => callback({ didTimeout: false, timeRemaining: () => 10 }), 1, [], false);
  window.cancelIdleCallback = window.clearTimeout;
  let frames = new Map();
  window.requestAnimationFrame = (callback) => { const id = ids++; frames.set(id, callback); return id; };
  window.cancelAnimationFrame = (id) => { frames.delete(id); };

  const nextTimer = (limit) => {
    let found = null;
    for (const timer of timers.values()) {
      if (timer.due <= limit && (!found || timer.due < found.due || (timer.due === found.due && timer.order < found.order))) found = timer;
    }
    return found;
  };
  const fireTimers = async (limit) => {
    for (let timer = nextTimer(limit); timer; timer = nextTimer(limit)) {
      now = Math.max(now, timer.due);
      if (timer.repeat) {
        timer.level += 1;
        timer.due += clamp(timer.wait, timer.level);
        timer.order = orders++;
      } else {
        timers.delete(timer.id);
      }
      nesting = timer.level;
      call(timer.run, timer.args);
      nesting = 0;
      await task();
    }
  };
  const fireFrames = async () => {
    const due = frames;
    frames = new Map();
    for (const callback of due.values()) {
      call(callback, [now]);
      await task();
    }
  };

  // While the page loads, timers of no delay run: promises of libraries hang on them.
  let booting = true, woken = false;
  const wake = () => {
    if (!booting || woken) return;
    woken = true;
    task().then(async () => { woken = false; if (booting) await fireTimers(now); });
  };

  // ---- animations -----------------------------------------------------------------------------------------------
  const held = new Map(); // Animation -> {base: virtual time at its currentTime 0, last: what was set}
  const syncAnimations = () => {
    for (const animation of native.getAnimations.call(document)) {
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
      if (Number.isFinite(end) && time >= end) {
        if (animation.playState !== "finished") animation.finish();
        state.set = null;
      } else {
        animation.pause();
        animation.currentTime = time;
        state.set = animation.currentTime;
      }
    }
    for (const svg of document.getElementsByTagName("svg")) {
      if (svg.ownerSVGElement || !svg.pauseAnimations) continue;
      svg.pauseAnimations();
      svg.setCurrentTime(now / 1000);
    }
  };

  // ---- sharpness ------------------------------------------------------------------------------------------------
  // `will-change: transform` keeps a layer at the resolution it was first drawn with: blurred when it grows, and another
  // picture for a unit that begins later. `filter` makes the same stacking context and containing block without that.
  const HINTS = /\b(transform|scale|rotate|translate|perspective)\b/;
  const changed = new Set();
  let looked = false;
  const collect = (records) => {
    for (const { target, type, addedNodes } of records) {
      if (type === "attributes") changed.add(target);
      else for (const node of addedNodes) if (node.nodeType === 1) changed.add(node);
    }
  };
  const watcher = new MutationObserver(collect);
  watcher.observe(document, { subtree: true, childList: true, attributes: true, attributeFilter: ["class", "style"] });
  const soften = (element) => {
    if (element.style && HINTS.test(getComputedStyle(element).willChange)) {
      element.style.setProperty("will-change", "filter", "important");
    }
  };
  const sharpen = () => {
    collect(watcher.takeRecords());
    if (!looked) changed.add(document.documentElement);
    looked = true;
    for (const root of changed) {
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
    return native.fetch(input, init).finally(() => native.setTimeout(() => requests.delete(key), 0));
  };
  const open = XMLHttpRequest.prototype.open, send = XMLHttpRequest.prototype.send;
  XMLHttpRequest.prototype.open = function (method, url, ...rest) { this.__kodaUrl = String(url); return open.call(this, method, url, ...rest); };
  XMLHttpRequest.prototype.send = function (body) {
    requests.set(this, this.__kodaUrl);
    this.addEventListener("loadend", () => requests.delete(this));
    return send.call(this, body);
  };
  const coming = () => {
    const names = [];
    if (document.readyState !== "complete") names.push("the document's load event");
    for (const image of document.images) if (!image.complete && image.loading !== "lazy") names.push(`image ${image.currentSrc || image.src}`);
    if (document.fonts && document.fonts.status === "loading") names.push("fonts");
    for (const url of requests.values()) names.push(`request ${url}`);
    return names.slice(0, MAX_PENDING_NAMES);
  };
  if (navigator.serviceWorker) navigator.serviceWorker.register = () => Promise.reject(new DOMException("service workers are off in a render", "SecurityError"));
  delete window.RTCPeerConnection; delete window.webkitRTCPeerConnection;

  // ---- the page's own contract ----------------------------------------------------------------------------------
  let contract = null; // {ready: "pending" | "yes" | message, seek}
  const findContract = () => {
    if (contract) return;
    const koda = window.__koda;
    if (koda && typeof koda.seek === "function") {
      contract = { ready: "pending", seek: (s) => koda.seek(s), name: "window.__koda.ready" };
      Promise.resolve(koda.ready).then(() => { contract.ready = "yes"; }, (e) => { contract.ready = `window.__koda.ready was rejected: ${e && e.message || e}`; contract.stack = String(e && e.stack || ""); });
    } else if (typeof window.__exportSeekTo === "function") {
      contract = { get ready() { return window.__exportReady === true ? "yes" : "pending"; }, seek: (s) => window.__exportSeekTo(s), name: "window.__exportReady" };
    }
  };
  const waitsFor = () => {
    try {
      const names = window.__koda.pending();
      return names.length ? ` (${names.slice(0, MAX_PENDING_NAMES).join(", ")})` : "";
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
  const bootTick = async () => { await fireTimers(now + 1000 / 60); now += 1000 / 60; await fireFrames(); };
  const begin = async () => {
    await settle();
    await fireTimers(now);
    sharpen();
    syncAnimations();
    for (const timer of timers.values()) timer.due = Math.max(0, timer.due - now);
    now = 0;
    for (const state of held.values()) { state.base = 0; }
    booting = false;
    const koda = window.__koda || {};
    const number = (value) => (Number.isFinite(value) ? value : null);
    const size = koda.size || {};
    return { contract: !!contract, duration: number(koda.duration), fps: number(koda.fps), width: number(size.width), height: number(size.height) };
  };

  // Move to a time. The page's own callbacks first, then its contract, then everything the browser animates.
  const frame = async (ms) => {
    seed(ms * 1000 + 1);
    if (ms > now) await fireTimers(ms);
    now = ms;
    seed(ms * 1000 + 2);
    await fireFrames();
    await settle();
    if (contract) {
      seed(ms * 1000 + 3);
      let done = false;
      const seek = Promise.resolve(contract.seek(ms / 1000)).finally(() => { done = true; });
      seek.catch(() => {});
      for (let i = 0; i < 64 && !done; i++) { await task(); if (!done && i % 4 === 3) { await fireTimers(now); await fireFrames(); } }
      await seek;
      await settle();
    }
    sharpen();
    syncAnimations();
    return coming();
  };
  const api = {
    status, bootTick, begin, frame,
    run: async (times) => { let pending = []; for (const ms of times) pending = await frame(ms); return pending; },
    pending: () => coming(),
    painted: () => new Promise((resolve) => native.raf(() => native.raf(() => resolve(true)))),
  };
  Object.defineProperty(window, "__kodaRender", { value: Object.freeze(api), enumerable: false });
})();
