// A page's clock, or that of a frame in it: what moves by itself in a browser is set to the frame's time instead. CSS
// animations, transitions, Web Animations, SVG animations, film and sound; then it says what is still coming.
((clock) => {
  const MAX_PENDING_NAMES = 8, MAX_CHARS = 4000, MAX_ROUNDS = 16, NOTHING_MS = 2000;
  const ASIDE_MS = 0.01;
  const MIN_OFFSET_MS = 34; // an animation this much younger than our last look has run by itself, not been set by the page
  const native = {
    fetch: window.fetch.bind(window),
    raf: clock.native.requestAnimationFrame.bind(window),
    setInterval: clock.native.setInterval.bind(window),
    clearInterval: clock.native.clearInterval.bind(window),
    getAnimations: Document.prototype.getAnimations,
    shadowAnimations: ShadowRoot.prototype.getAnimations,
    currentTime: Object.getOwnPropertyDescriptor(Animation.prototype, "currentTime"),
    startTime: Object.getOwnPropertyDescriptor(Animation.prototype, "startTime"),
    pause: Animation.prototype.pause, finish: Animation.prototype.finish,
    timelineTime: Object.getOwnPropertyDescriptor(AnimationTimeline.prototype, "currentTime").get,
    attachShadow: Element.prototype.attachShadow,
    listen: EventTarget.prototype.addEventListener,
    length: Object.getOwnPropertyDescriptor(window, "length").get.bind(window),
  };
  const { origin } = new URL(document.baseURI); // where its files are, also of a frame that is of no origin itself
  let loaded = false; // what is written after that is never complete, and there
  addEventListener("load", (event) => {
    if (event.target !== document) return;
    loaded = true;
    hold(); // the browser lays the page out next
  }, true);
  window.__kodaProps = __PROPS__;
  clock.define(AnimationTimeline.prototype, "currentTime", () => clock.now());

  // ---- roots ----------------------------------------------------------------------------------------------------
  const shadows = new Set();
  const changed = new Map(); // what is new since it was looked at -> whether what lies beside it may be new too
  const change = (node, whole) => changed.set(node, whole || changed.get(node) === true);
  const watcher = new MutationObserver((records) => {
    collect(records);
    hold();
  });
  const arrived = new WeakSet(); // frames in the page whose own page has come
  const watch = (root) => {
    watcher.observe(root, { subtree: true, childList: true, attributes: true, attributeFilter: ["class", "style"] });
    native.listen.call(root, "load", (event) => {
      if (event.target instanceof HTMLIFrameElement) arrived.add(event.target);
      else if (pictures.isOurs(event.target)) event.stopImmediatePropagation();
      hold(); // a sheet of styles came, perhaps
    }, true);
  };
  watch(document);
  // A frame begins with an empty page. Where a script looks into that, the page that comes takes over its window, and our
  // clock with it, but not what was bound to its document.
  let bound = document;
  const rebind = () => {
    if (document === bound) return;
    bound = document;
    swept = false;
    if (holds) native.raf(holdEachFrame);
    watch(document);
    kodaFonts.watch();
    for (const frame of document.getElementsByTagName("iframe")) if (isThere(frame)) arrived.add(frame);
  };
  addEventListener("pagehide", () => { // the other one is there when this task is over
    const timer = native.setInterval(() => { native.clearInterval(timer); rebind(); });
  });
  addEventListener("DOMContentLoaded", () => hold());
  const known = new WeakSet();
  const know = (root) => {
    if (known.has(root)) return;
    known.add(root);
    shadows.add(new WeakRef(root));
    change(root, true);
    watch(root);
  };
  Element.prototype.attachShadow = function attachShadow(options) {
    const root = native.attachShadow.call(this, options);
    know(root);
    return root;
  };
  const roots = () => {
    rebind();
    const found = [document];
    for (const reference of shadows) {
      const root = reference.deref();
      if (!root) shadows.delete(reference);
      else if (root.host.isConnected) found.push(root);
    }
    return found;
  };
  const quietly = (run) => { // what we change ourselves is nothing new
    collect(watcher.takeRecords());
    run();
    watcher.takeRecords();
  };
  const media = kodaMedia(clock, roots), pictures = kodaPictures(clock, native, roots, quietly);
  const scrolling = kodaScroll(clock, quietly), offscreen = kodaOffscreen(clock);

  // ---- animations -----------------------------------------------------------------------------------------------
  const stops = kodaStops();
  // Animation that is not over -> {base: virtual time at its currentTime 0, set: what was set, at: for which time, rate,
  // style: what may have it stand, said: whether that said so last, stands: whether it does, stood: at which time of its own}
  const held = new Map();
  const take = (animation, base, isNew = false) => {
    const style = stops.styleOf(animation), said = !isNew && style !== null && stops.isStopped(animation, style), was = over.get(animation);
    const stands = said && was !== undefined; // it was over, and was stopped there
    held.set(animation, { base: stands && !put.has(animation) ? clock.now() - was.end / was.rate : base, set: null, style, said, stands, stood: null });
  };
  const over = new WeakMap(); // what came to its end -> its base, rate and end: it goes on from there where it is made to last longer
  const noteOver = (animation, base, rate) => over.set(animation, { base, rate, end: rate < 0 ? 0 : endOf(animation) });
  const put = new WeakMap(); // what the page put an animation to itself, until that is heeded
  const msOf = (time) => ((time ?? null) === null ? null : Number(time.to?.("ms").value ?? time));
  Object.defineProperty(Animation.prototype, "currentTime", {
    ...native.currentTime,
    set(time) {
      native.currentTime.set.call(this, time);
      put.set(this, this.timeline === document.timeline ? msOf(time) : time);
    },
  });
  const ended = new WeakSet(); // what the page brought to its end itself
  const drop = (animation) => {
    held.delete(animation);
    over.delete(animation);
  };
  const goOn = (animation) => { // from where the browser says that it is
    ended.delete(animation);
    if (!holds) put.set(animation, animation.currentTime);
  };
  const noted = {
    pause(animation) {
      const state = held.get(animation);
      if (state && Number.isNaN(state.at)) native.currentTime.set.call(animation, state.stood ?? (clock.now() - state.base) * animation.playbackRate);
      drop(animation);
    },
    cancel: drop,
    finish(animation) {
      drop(animation);
      put.delete(animation);
      ended.add(animation);
    },
    play: goOn,
    reverse(animation, rate) {
      turn(animation, -rate);
      goOn(animation);
    },
    updatePlaybackRate(animation, _, rate) { turn(animation, Number(rate)); },
  };
  const turn = (animation, rate) => { if (animation.playbackRate !== rate) animation.playbackRate = rate; }; // at once, not when it is ready
  const isStanding = (animation) => held.get(animation)?.stands ?? (!waiting.has(animation) && animation.playState === "paused");
  for (const [name, note] of Object.entries(noted)) {
    const run = Animation.prototype[name];
    Animation.prototype[name] = { [name](...given) {
      const rate = this.playbackRate, stood = isStanding(this);
      run.apply(this, given);
      stops.called(this, name, stood);
      note(this, rate, ...given);
      if (name !== "updatePlaybackRate") waiting.delete(this);
    } }[name];
  }
  const animations = () => roots().flatMap((root) => (root === document ? native.getAnimations : native.shadowAnimations).call(root));
  const firstOf = ({ effect, playbackRate }) => { // where it is when it begins
    const end = effect ? Number(effect.getComputedTiming().endTime) : Infinity;
    return playbackRate < 0 && Number.isFinite(end) ? end : 0;
  };
  // While a page loads the browser's own time goes on, for as long as that takes: between its frames that is the real one.
  // What begins meanwhile is held by whatever could have begun it, a frame or a change of the document, or it would be
  // over, and gone where nothing of it stays, before ours begins.
  const endOf = ({ effect }) => (effect ? Number(effect.getComputedTiming().endTime) : Infinity);
  const isPutToEnd = (animation) => put.has(animation) && (animation.playbackRate < 0 ? put.get(animation) <= 0 : put.get(animation) >= endOf(animation));
  const isMoved = (animation, { set, rate }) => (set ?? null) !== null && (animation.currentTime !== set || animation.playbackRate !== rate);
  const browsersNow = () => Number(native.timelineTime.call(document.timeline) ?? 0);
  const waiting = new Set();
  let holds = true;
  // When one began is a time of ours, which another is put to so that both go together. What is put so is held at once:
  // until the next frame it would go on in the browser's own time.
  Object.defineProperty(Animation.prototype, "startTime", {
    ...native.startTime,
    get() {
      const found = native.startTime.get.call(this), state = held.get(this) ?? (put.has(this) ? null : over.get(this));
      if (this.timeline !== document.timeline || this.playState === "idle") return found;
      if (state?.stands || !state && found === null && !waiting.has(this)) return null;
      if (state && !isMoved(this, state)) return state.base;
      const time = state ? this.currentTime : put.get(this) ?? (holds && !ended.has(this) ? firstOf(this) : this.currentTime);
      return clock.now() - Number(time) / (this.playbackRate || 1);
    },
    set(time) {
      const rate = this.playbackRate, stood = isStanding(this), isOurs = this.timeline === document.timeline;
      const began = isOurs ? msOf(time) : null;
      if (!isOurs || began !== null && (!rate || !Number.isFinite(began))) return native.startTime.set.call(this, time);
      const at = began === null ? null : (clock.now() - began) * rate;
      native.startTime.set.call(this, at === null ? null : browsersNow() - at / rate);
      if (at === null && stood) return;
      stops.called(this, at === null ? "pause" : "finish", stood);
      waiting.delete(this);
      if (at === null) return noted.pause(this);
      drop(this);
      ended.delete(this);
      put.delete(this);
      if (holds) put.set(this, at);
      else if (this.playState === "finished") noteOver(this, began, rate);
      if (this.playState !== "running") return;
      native.pause.call(this);
      native.currentTime.set.call(this, at);
      if (holds) return waiting.add(this);
      take(this, began);
      Object.assign(held.get(this), { at, set: this.currentTime, rate });
    },
  });
  const hold = () => {
    if (!holds) return;
    for (const animation of animations()) {
      if (animation.timeline !== document.timeline || animation.playState === "finished" && isPutToEnd(animation)) continue;
      if (animation.playState !== "running" && (animation.playState !== "finished" || ended.has(animation))) continue;
      native.pause.call(animation);
      native.currentTime.set.call(animation, put.get(animation) ?? firstOf(animation));
      waiting.add(animation);
    }
  };
  const holdEachFrame = () => {
    hold();
    if (holds) native.raf(holdEachFrame);
  };
  native.raf(holdEachFrame);
  // A drawing's time has half of our digits: never less than the frame's, or what begins with it had not begun.
  const digits = new Float32Array(1), bits = new Uint32Array(digits.buffer);
  const single = (seconds) => {
    digits[0] = seconds;
    if (digits[0] < seconds) bits[0] += 1;
    return digits[0];
  };
  const baseOf = (animation, at, rate, young) => {
    const was = over.get(animation), first = firstOf(animation);
    if (was && was.rate === rate && !put.has(animation)) return was.base;
    return clock.now() - Number(put.get(animation) ?? (Math.abs(at - first) < young * Math.abs(rate) ? first : at)) / rate;
  };
  const place = (animation, state, now) => { // whether it is over
    const { playState, playbackRate } = animation;
    if (playState === "idle") return true;
    if (playState === "paused" && isMoved(animation, state)) {
      state.base = now - Number(animation.currentTime ?? 0) / (playbackRate || 1); // the page moved it
      if (state.stood !== null) state.stood = Number(animation.currentTime ?? 0);
      put.delete(animation);
    }
    state.rate = playbackRate;
    if (state.stood !== null && !state.stands) {
      state.base = now - state.stood / (playbackRate || 1);
      state.stood = null;
    }
    const time = state.stood ?? (playbackRate ? (now - state.base) * playbackRate : Number(animation.currentTime ?? 0)), end = endOf(animation);
    if (state.stood === null && (playbackRate < 0 ? time <= 0 : Number.isFinite(end) && time >= end)) {
      if (playState !== "finished") native.finish.call(animation);
      noteOver(animation, state.base, playbackRate);
      return true;
    }
    if (state.stands) state.stood = time;
    if (state.at !== time || state.set !== animation.currentTime || playState !== "paused") {
      native.pause.call(animation);
      native.currentTime.set.call(animation, time);
      state.at = time;
      state.set = animation.currentTime;
    }
    return false;
  };
  let looked = 0; // where the document's own time was; that of a page that is not shown yet leaps when it is
  const syncAnimations = () => {
    scrolling.move();
    const now = clock.now();
    const present = browsersNow(), young = MIN_OFFSET_MS + present - looked;
    looked = present;
    for (const animation of animations()) {
      if (animation.timeline !== document.timeline) continue; // it goes by scrolling, or by nothing
      if (animation.playState !== "running") continue; // paused by the page or by us, over, or idle
      const state = held.get(animation), rate = animation.playbackRate || 1;
      const at = Number(animation.currentTime ?? 0);
      if (state) {
        if (state.stands) stops.free(animation); // the page set it going
        Object.assign(state, { base: now - at / rate, stands: false, stood: null }); // played again
      } else {
        take(animation, baseOf(animation, at, rate, young)); // it just began
      }
      put.delete(animation);
    }
    for (const [animation, state] of held) { // all of them before any is moved, which makes styles anew
      const said = state.style !== null && stops.isStopped(animation, state.style);
      if (said !== state.said) state.said = state.stands = said;
    }
    for (const [animation, state] of held) if (place(animation, state, now)) held.delete(animation);
    for (const root of roots()) {
      for (const svg of root.querySelectorAll("svg")) {
        if (svg.ownerSVGElement || !svg.pauseAnimations) continue;
        svg.pauseAnimations();
        kodaWitness.ours(() => svg.setCurrentTime(single(now / 1000)));
      }
    }
  };

  // ---- sharpness ------------------------------------------------------------------------------------------------
  // `will-change: transform` keeps a layer at the resolution it was first drawn with: blurred when it grows, and another
  // picture for a unit that begins later. `filter` makes the same stacking context and containing block without that.
  const HINTS = /\b(transform|scale|rotate|translate|perspective)\b/;
  let swept = false;
  const collect = (records) => {
    for (const { target, attributeName, addedNodes } of records) {
      if (attributeName) change(target, attributeName === "class" || pictures.mayName(target));
      else for (const node of addedNodes) if (node.nodeType === 1) change(node, true);
    }
  };
  const soften = (element, whole) => {
    if (element.shadowRoot) know(element.shadowRoot); // one that was written as HTML
    if (!element.style) return;
    const style = getComputedStyle(element);
    pictures.meet(element, style, whole);
    if (HINTS.test(style.willChange)) element.style.setProperty("will-change", "filter", "important");
  };
  const sharpen = () => {
    collect(watcher.takeRecords());
    if (!swept && document.documentElement) change(document.documentElement, true);
    swept = true;
    for (const [root, whole] of changed) { // what is found on the way is looked at too
      soften(root, whole);
      for (const element of root.querySelectorAll("*")) soften(element, whole);
    }
    changed.clear();
    watcher.takeRecords();
  };

  // ---- layout ---------------------------------------------------------------------------------------------------
  // Canvases of React Three Fiber and charts wait until their size stood still for some milliseconds: not in a video.
  if (window.ResizeObserver) {
    const { ResizeObserver } = window;
    window.ResizeObserver = class extends ResizeObserver {
      constructor(seen) { super(typeof seen === "function" ? function (...what) { return clock.measure(() => seen.apply(this, what)); } : seen); }
    };
    Object.defineProperty(window.ResizeObserver, "name", { value: "ResizeObserver" });
  }

  // ---- view transitions -----------------------------------------------------------------------------------------
  // One begins with pictures of what was painted before and after: the frame waits until both were taken.
  const transitions = new Set();
  for (const { prototype } of [Document, Element]) {
    const start = prototype.startViewTransition;
    if (start) prototype.startViewTransition = function startViewTransition(...change) {
      const transition = start.apply(this, change);
      const there = () => clock.soon(() => transitions.delete(transition));
      transitions.add(transition);
      transition.ready.then(there, there);
      return transition;
    };
  }

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
  const HERE = ["data:", "blob:", `${origin}/`];
  const ours = (frame) => frame.hasAttribute("srcdoc") || HERE.some((start) => frame.src.startsWith(start));
  const isComing = (frame) => !arrived.has(frame) && frame.loading !== "lazy" && ours(frame); // what is refused never comes
  const isThere = (frame) => { // as far as one can tell who has not heard of it
    const page = frame.contentDocument;
    return page ? page.readyState === "complete" && page.URL !== "about:blank" : strangers.has(frame.contentWindow);
  };
  const framesComing = () => roots().flatMap((root) => {
    const found = root === document ? document.getElementsByTagName("iframe") : root.querySelectorAll("iframe");
    return [...found].filter(isComing);
  });
  const short = (text) => String(text).slice(0, MAX_CHARS);
  const coming = () => {
    const names = [];
    if (!loaded && document.readyState !== "complete") names.push("the document's load event");
    for (const image of document.images) if (!image.complete && image.loading !== "lazy") names.push(`image ${image.currentSrc || image.src}`);
    if (document.fonts && document.fonts.status === "loading") names.push("fonts");
    for (const url of requests.values()) names.push(`request ${url}`);
    for (const frame of framesComing()) names.push(`the page of an iframe ${frame.src}`.trimEnd());
    if (transitions.size) names.push("a view transition");
    names.push(...clock.workers(), ...media.pending());
    for (const { pending } of frames()) names.push(...pending());
    return names.slice(0, MAX_PENDING_NAMES).map(short);
  };
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
  const moved = new WeakMap(); // and what time it was last moved to
  const LOOK_MS = 20; // of real time
  const strangers = new WeakMap(); // the window of a frame that nobody may look into -> what is said to it over a port
  let heard = 0; // what frames and the page said to each other
  const converse = (port) => {
    const waiting = [];
    let pending = ["the page of an iframe"];
    const strays = [];
    const inner = { pending: () => pending, strays: () => strays.splice(0) };
    for (const what of ["look", "bootTick", "begin", "frame", "rest", "again"]) {
      inner[what] = (...given) => new Promise((resolve, reject) => {
        waiting.push({ resolve, reject });
        port.postMessage([what, ...given]);
      });
    }
    port.onmessage = ({ data: [answer, names, failed, drawn] }) => {
      pending = names;
      strays.push(...drawn);
      const asked = waiting.shift();
      if (failed) asked.reject(new Error(failed));
      else asked.resolve(answer);
    };
    return inner;
  };
  addEventListener("message", (event) => {
    heard += 1;
    if (!event.isTrusted || !event.data || event.data[clock.MARK] !== "frame") return;
    event.stopImmediatePropagation();
    if (event.source && event.ports.length) strangers.set(event.source, converse(event.ports[0]));
  }, true);
  const frames = () => {
    const found = [];
    if (!native.length()) return found;
    // until its page is there, a frame has an empty one, and nothing is begun in that: it would not begin again in the
    // page that takes its place
    const empty = new Set(framesComing().map((frame) => frame.contentWindow));
    for (let i = 0; i < native.length(); i++) {
      if (empty.has(window[i])) continue;
      const stranger = strangers.get(window[i]);
      try {
        if (stranger || window[i].__kodaRender) found.push(stranger || window[i].__kodaRender);
      } catch { continue; } // it has not said anything yet
    }
    return found;
  };
  // One that is removed, or goes elsewhere, never answers.
  const ask = (inner, what, ...given) => new Promise((resolve, reject) => {
    const timer = native.setInterval(() => { if (!frames().includes(inner)) over(resolve)(null); }, LOOK_MS);
    const over = (done) => (answer) => { native.clearInterval(timer); done(answer); };
    inner[what](...given).then(over(resolve), over(reject));
  });
  const look = async () => { // what those say that they wait for is known only by asking
    for (const inner of frames()) await ask(inner, "look");
  };
  const beginFrames = async (all) => {
    await look();
    for (const inner of frames()) {
      if (!all && (bases.has(inner) || inner.pending().length)) continue; // one that still loads begins when it is there
      bases.set(inner, clock.now());
      await ask(inner, "begin");
    }
  };
  const waits = () => frames().some((inner) => !bases.has(inner) && !inner.pending().length); // one that is there to begin
  const moveFrames = async () => {
    await beginFrames(false);
    for (const inner of frames()) {
      if (!bases.has(inner)) continue;
      const time = clock.now() - bases.get(inner);
      if (moved.get(inner) === time) { await ask(inner, "again"); continue; } // its callbacks run once a frame, however often we ask
      moved.set(inner, time);
      await ask(inner, "frame", time) ?? await ask(inner, "rest");
    }
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
  const status = async () => {
    hold();
    await look();
    findContract();
    if (contract && contract.ready === "pending") await clock.settle(); // it may be ready by now: time passes for none that is
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
    for (const inner of frames()) await ask(inner, "bootTick");
  };
  // What began while the page loaded begins now; what the page put to another time keeps that.
  const beginAnimations = () => {
    hold();
    holds = false;
    const passed = MIN_OFFSET_MS + browsersNow();
    const begun = animations().map((animation) => [animation, Number(put.get(animation) ?? animation.currentTime ?? 0), put.has(animation)]);
    syncAnimations();
    for (const [animation, at, isPut] of begun) {
      const state = held.get(animation), rate = animation.playbackRate || 1;
      if (!state) continue;
      const first = firstOf(animation);
      state.base = -(!isPut && Math.abs(at - first) < passed * Math.abs(rate) ? first : at) / rate;
    }
    for (const animation of waiting) {
      if (animation.playState !== "paused") continue;
      take(animation, -Number(put.get(animation) ?? firstOf(animation)) / (animation.playbackRate || 1), true);
      put.delete(animation);
    }
    waiting.clear();
    syncAnimations();
    // one that has only ever been held at its beginning may lie in another layer than later; the first frame puts it back
    for (const [animation, state] of held) {
      if (animation.playState !== "paused") continue;
      native.currentTime.set.call(animation, state.at + ASIDE_MS);
      Object.assign(state, { at: NaN, set: animation.currentTime });
    }
  };
  const begin = async () => {
    kodaLate.begin();
    findContract();
    await clock.begin();
    kodaFonts.settle();
    sharpen();
    media.look();
    scrolling.begin();
    beginAnimations();
    media.rebase();
    clock.onPass(syncAnimations); // what a timer begins begins then, and what it stops has gone as far
    pictures.begin();
    await pictures.place();
    await beginFrames(true);
    const koda = window.__koda || {};
    const number = (value) => (Number.isFinite(value) ? value : null);
    const size = koda.size || {};
    const aside = held.size > 0 || frames().length > 0;
    kodaWitness.begin(!!contract);
    kodaAhead.begin();
    return { contract: !!contract, aside, duration: number(koda.duration), fps: number(koda.fps), width: number(size.width), height: number(size.height) };
  };

  const seekContract = async () => {
    if (!contract) return;
    const ms = clock.now();
    clock.seed(ms * 1000 + 3);
    let done = false;
    scrolling.directly(true);
    const over = () => { done = true; scrolling.directly(false); };
    const seek = new Promise((sought) => sought(contract.seek(ms / 1000))).finally(over);
    seek.catch(() => {});
    for (let i = 0; i < 64 && !done; i++) {
      await clock.task();
      if (!done && i % 4 === 3) { await clock.fireTimers(clock.now()); await clock.fireFrames(); }
    }
    await seek;
    await clock.settle();
  };

  // Move to a time. The page's own callbacks first, then its contract, then everything the browser plays.
  const frame = async (ms, isFollowed = false) => {
    kodaWitness.next();
    kodaCanvas.next();
    await pictures.prepare(ms);
    await clock.moveTimers(ms);
    media.place();
    if (media.pending().length) return null; // what draws a film wants it to be there
    const names = await rest();
    if (!isFollowed || names.length || !kodaAhead.may(media.hasFilms())) return names;
    kodaAhead.follow();
    return "followed";
  };
  const rest = async () => {
    syncAnimations(); // callbacks see what this frame will show
    await clock.moveFrame();
    await seekContract();
    return again();
  };
  // The next frame's scripts, while the one that was followed is painted.
  const ahead = async (ms) => {
    await kodaAhead.turn();
    return frame(ms, true);
  };
  // What arrived meanwhile (a frame's page, a film) has to be put to this time too.
  const again = async () => {
    if (kodaFonts.settle()) await seekContract(); // a canvas, or what measured letters, had another font
    for (let round = 0, before; round < MAX_ROUNDS; round++) {
      before = heard;
      await moveFrames();
      if (!frames().length) break;
      await clock.settle(); // what they say to the page, and the page to them
      if (heard === before && !waits()) break;
    }
    await offscreen.place(frames().flatMap((inner) => inner.strays()));
    sharpen();
    syncAnimations();
    media.place();
    const names = coming(); // before: what arrives meanwhile has not been placed
    if (waits()) names.push("the page of an iframe"); // it came in the last round
    await pictures.place();
    kodaWitness.shown();
    return names.length ? names : coming();
  };
  const come = async () => { // what the page asked for: what that begins is queued, and ours behind it
    await clock.settle();
    await kodaLate.settle();
    await clock.settle(); // and what a script's end begins
    return again();
  };

  const api = {
    look, status, bootTick, begin, frame, ahead, rest, again, come, films: media.pending, pending: coming, strays: offscreen.takeStrays, witness: kodaWitness.said,
    painted: () => new Promise((resolve) => { // where there is nothing to paint, nothing ever is
      const timer = native.setInterval(() => { if (!document.body) over(false); }, NOTHING_MS);
      const over = (there) => { native.clearInterval(timer); resolve(there); };
      native.raf(() => native.raf(() => over(true)));
    }),
  };
  Object.defineProperty(window, "__kodaRender", { value: Object.freeze(api), enumerable: false });
  kodaWitness.arm();

  // ---- a frame that the page around it may not look into --------------------------------------------------------
  const isReached = () => { try { return !kodaAlone && Boolean(parent.document); } catch { return false; } }; // by that page
  if (parent !== window && !isReached()) {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = async ({ data: [what, ...given] }) => {
      let answer = null, failed = "";
      try { answer = await api[what](...given); } catch (error) { failed = short(error && error.message || error || "it threw nothing"); }
      const strays = offscreen.takeStrays();
      port1.postMessage([answer, coming(), failed, strays], strays.map(([, bitmap]) => bitmap));
    };
    parent.postMessage({ [clock.MARK]: "frame" }, "*", [port2]);
  }
})(kodaClock(window, __SEED__));
