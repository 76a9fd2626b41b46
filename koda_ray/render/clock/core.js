// Time, random numbers, timers, animation frames and workers of one scope: a page, a frame in it, or a worker.
//
// Time stands at 0 while the scope loads. Then `move` moves it: timers fire in order at their own times, animation frame
// callbacks once a frame. Random numbers are seeded again at every frame, so that a frame does not depend on which
// frames were made before it. Callbacks run in tasks of their own: promises settle between them as they do in a browser.
const kodaClock = (scope, SEED) => {
  const EPOCH_MS = 1735689600000; // 2025-01-01T00:00:00Z
  const MAX_TALKS = 16; // how often a page and its workers may answer each other within a frame
  const LAST_MS = 5000; // of real time: so long a worker that is ended may take to say what it drew
  const native = {
    Date: scope.Date, Worker: scope.Worker, requestAnimationFrame: scope.requestAnimationFrame,
    setInterval: scope.setInterval, clearInterval: scope.clearInterval, // a worker that has not begun has none yet
    random: Crypto.prototype.getRandomValues,
  };
  let now = 0; // milliseconds of virtual time
  const define = (target, name, get) => Object.defineProperty(target, name, { get, configurable: true });

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
  const today = () => Math.floor(EPOCH_MS + now);
  const VirtualDate = function Date(...args) {
    if (!new.target) return new native.Date(today()).toString();
    return Reflect.construct(native.Date, args.length ? args : [today()], new.target);
  };
  VirtualDate.prototype = native.Date.prototype;
  VirtualDate.now = today;
  VirtualDate.parse = native.Date.parse;
  VirtualDate.UTC = native.Date.UTC;
  Object.defineProperty(VirtualDate, "length", { value: 7 });
  native.Date.prototype.constructor = VirtualDate;
  scope.Date = VirtualDate;
  Performance.prototype.now = function () { return now; };
  define(Performance.prototype, "timeOrigin", () => EPOCH_MS);
  define(Event.prototype, "timeStamp", () => now);
  const { DateTimeFormat } = Intl;
  const format = Object.getOwnPropertyDescriptor(DateTimeFormat.prototype, "format").get;
  const { formatToParts } = DateTimeFormat.prototype;
  define(DateTimeFormat.prototype, "format", function () {
    const whole = format.call(this);
    return (date) => whole(date === undefined ? today() : date);
  });
  DateTimeFormat.prototype.formatToParts = function (date) { return formatToParts.call(this, date === undefined ? today() : date); };
  if (scope.Temporal) {
    const { Instant, Now } = scope.Temporal;
    const instant = () => Instant.fromEpochMilliseconds(today());
    const zoned = (zone) => instant().toZonedDateTimeISO(zone === undefined ? Now.timeZoneId() : zone);
    Object.assign(Now, {
      instant, zonedDateTimeISO: zoned,
      plainDateTimeISO: (zone) => zoned(zone).toPlainDateTime(),
      plainDateISO: (zone) => zoned(zone).toPlainDate(),
      plainTimeISO: (zone) => zoned(zone).toPlainTime(),
    });
  }

  // ---- console --------------------------------------------------------------------------------------------------
  // Only errors are heard of, and of those the first; each line of the others would go all the way for nothing.
  const MAX_ERRORS = 200;
  let errors = 0;
  for (const [name, say] of Object.entries(console)) {
    if (typeof say !== "function") continue;
    if (name === "error") console[name] = (...args) => { if (errors++ < MAX_ERRORS) say(...args); };
    else if (name === "assert") console[name] = (good, ...args) => { if (!good && errors++ < MAX_ERRORS) say(good, ...args); };
    else if (name !== "createTask" && name !== "context") console[name] = () => {};
  }

  // ---- tasks ----------------------------------------------------------------------------------------------------
  const channel = new MessageChannel();
  const waiting = [];
  channel.port1.onmessage = () => waiting.shift()();
  const task = () => new Promise((resolve) => { waiting.push(resolve); channel.port2.postMessage(0); });
  // React and others queue work in tasks; each may queue more. A fixed number, so that every run does the same.
  const settle = async () => { for (let i = 0; i < 4; i++) await task(); };
  const soon = (run) => { task().then(run); };
  const call = (callback, args) => {
    try { callback.apply(scope, args); } catch (error) { scope.reportError(error); }
  };

  // ---- timers and animation frames ------------------------------------------------------------------------------
  let ids = 1, orders = 1, nesting = 0, booting = true, measuring = false;
  const timers = new Map();
  // Earliest first, as a heap: a page may have a hundred thousand. What was cleared stays in it until it comes up.
  let queue = [];
  const earlier = (one, other) => one.due < other.due || (one.due === other.due && one.order < other.order);
  const enqueue = (timer) => {
    let at = queue.length;
    for (let up; at > 0 && earlier(timer, queue[up = (at - 1) >> 1]); at = up) queue[at] = queue[up];
    queue[at] = timer;
  };
  const dequeue = () => {
    const last = queue[queue.length - 1], length = queue.length -= 1;
    let at = 0;
    for (let down = 1; down < length; down = 2 * at + 1) {
      if (down + 1 < length && earlier(queue[down + 1], queue[down])) down += 1;
      if (!earlier(queue[down], last)) break;
      queue[at] = queue[down];
      at = down;
    }
    if (length) queue[at] = last;
  };
  const requeue = () => {
    queue = [];
    timers.forEach(enqueue);
  };
  // Beyond five levels the HTML standard waits at least 4 ms; without that a timer of 0 would never let time pass.
  const clamp = (wait, level) => (level > 5 && wait < 4 ? 4 : wait);
  const addTimer = (callback, delay, args, repeat) => {
    const level = nesting + 1, wait = Math.max(repeat ? 1 : 0, Number(delay) || 0), id = ids++;
    const run = typeof callback === "function" ? callback : () => (0, eval)(String(callback));
    const timer = { id, order: orders++, due: now + (measuring ? 0 : clamp(wait, level)), wait, run, args, repeat, level };
    timers.set(id, timer);
    if (queue.length > 2 * timers.size + 1000) requeue();
    else enqueue(timer);
    wake();
    return id;
  };
  scope.setTimeout = (callback, delay, ...args) => addTimer(callback, delay, args, false);
  scope.setInterval = (callback, delay, ...args) => addTimer(callback, delay, args, true);
  scope.clearTimeout = scope.clearInterval = (id) => { timers.delete(Number(id)); };
  if (scope.requestIdleCallback) {
    scope.requestIdleCallback = (callback) => addTimer(() => callback({ didTimeout: false, timeRemaining: () => 10 }), 1, [], false);
    scope.cancelIdleCallback = scope.clearTimeout;
  }
  AbortSignal.timeout = (delay) => {
    const controller = new AbortController();
    addTimer(() => controller.abort(new DOMException("signal timed out", "TimeoutError")), delay, [], false);
    return controller.signal;
  };
  if (scope.Scheduler) {
    const { postTask } = scope.Scheduler.prototype;
    scope.Scheduler.prototype.postTask = function (callback, { delay, signal, ...options } = {}) {
      if (!(delay > 0)) return postTask.call(this, callback, signal ? { signal, ...options } : options);
      return new Promise((resolve, reject) => addTimer(() => {
        if (signal && signal.aborted) reject(signal.reason);
        else new Promise((done) => done(callback())).then(resolve, reject);
      }, delay, [], false));
    };
  }
  let frames = new Map();
  scope.requestAnimationFrame = (callback) => { const id = ids++; frames.set(id, callback); return id; };
  scope.cancelAnimationFrame = (id) => { frames.delete(id); };

  // What a page puts off while it measures itself belongs to its loading, not to what it shows afterwards.
  const measure = (run) => {
    measuring = booting;
    try { return run(); } finally { measuring = false; }
  };

  const nextTimer = (limit) => {
    while (queue.length && timers.get(queue[0].id) !== queue[0]) dequeue();
    return queue.length && queue[0].due <= limit ? queue[0] : null;
  };
  let passes = () => {}; // who hears that time passes: before, where something ran, and after
  const fireTimers = async (limit) => {
    let ran = false;
    for (let timer = nextTimer(limit); timer; timer = nextTimer(limit)) {
      if (timer.due > now) {
        if (ran) passes();
        ran = false;
        now = timer.due;
        passes();
      }
      dequeue();
      if (timer.repeat) {
        timer.level += 1;
        timer.due += clamp(timer.wait, timer.level);
        timer.order = orders++;
        enqueue(timer);
      } else {
        timers.delete(timer.id);
      }
      nesting = timer.level;
      const before = talks;
      call(timer.run, timer.args);
      ran = true;
      nesting = 0;
      await task();
      if (talks !== before) await moveWorkers("time");
    }
    if (ran) passes();
  };
  const fireFrames = async () => {
    const due = frames;
    frames = new Map();
    for (const callback of due.values()) {
      call(callback, [now]);
      await task();
    }
  };

  // While a scope loads, timers of no delay run: promises of libraries hang on them.
  let woken = false, talks = 0;
  const wake = () => {
    if (!booting || woken) return;
    woken = true;
    task().then(async () => { woken = false; if (booting) await fireTimers(now); });
  };

  // ---- workers --------------------------------------------------------------------------------------------------
  // A worker's clock is moved by messages of ours among the page's own, which keep their order: its answer to one comes
  // after all that it had to say before.
  const MARK = "__kodaClock", BASE = "__kodaBase";
  const workers = new Set();
  const left = [], ends = new Set(); // pictures that workers left; the ends that are waited for
  let draws = () => {}; // who hears that a canvas of the page is drawn to, here or by a worker
  const isOver = (line) => new Promise((resolve) => {
    const timer = native.setInterval?.call(scope, () => line.over(), LAST_MS);
    line.over = () => { native.clearInterval?.call(scope, timer); resolve(); };
  });
  if (native.Worker) {
    const { postMessage, terminate } = native.Worker.prototype;
    const listen = EventTarget.prototype.addEventListener;
    // A worker's own worker is not answered from the bundle by its name, only what it asks for itself.
    const reachable = (url, { type } = {}) => {
      const whole = String(new URL(url, scope[BASE] || scope.location));
      if (scope.document || !whole.startsWith("http")) return url;
      const name = JSON.stringify(whole);
      const text = type === "module" ? `import ${name};` : `self.${BASE} = ${name}; importScripts(${name});`;
      return URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
    };
    scope.Worker = class Worker extends native.Worker {
      #line;
      constructor(url, options) {
        super(reachable(url, options), options);
        const line = this.#line = { name: `worker ${url}`, base: now, asked: [], draws: false, over: null };
        line.ask = (order) => new Promise((resolve) => {
          if (!workers.has(line)) return resolve(); // it ended while others were asked
          line.asked.push(resolve); // it answers in order
          return postMessage.call(this, { [MARK]: order });
        });
        workers.add(line);
        listen.call(this, "message", (event) => {
          const said = event.data && event.data[MARK];
          if (!said && !line.over) { talks += 1; return; }
          event.stopImmediatePropagation();
          if (said === "end") this.#end(event.data.shown);
          else if (said === "draws") { line.draws = true; draws(); }
          else line.asked.shift()?.(event.data);
        });
        listen.call(this, "error", (event) => {
          if (line.over) event.stopImmediatePropagation();
          else if (!(event instanceof ErrorEvent)) this.#end(); // it never loaded
        });
      }
      #end(shown = []) {
        const line = this.#line;
        left.push(...shown);
        workers.delete(line);
        for (const resolve of line.asked.splice(0)) resolve();
        if (line.over) line.over();
      }
      postMessage(...args) {
        if (this.#line.over) return undefined;
        talks += 1;
        return postMessage.apply(this, args);
      }
      // What it drew stays, so it says that first. Meanwhile it hears nothing more of the page, nor the page of it.
      terminate() {
        const line = this.#line;
        if (line.over) return undefined;
        const says = line.draws && workers.has(line);
        this.#end();
        if (!says) return terminate.call(this);
        const ended = isOver(line).then(() => { ends.delete(ended); terminate.call(this); });
        ends.add(ended);
        return postMessage.call(this, { [MARK]: { kind: "end" } });
      }
    };
  }
  const moveWorkers = async (kind) => {
    for (let round = 0; round < MAX_TALKS && workers.size; round++) {
      const before = talks;
      for (const line of [...workers]) {
        if (kind === "begin") line.base = 0;
        await line.ask({ kind: round ? "time" : kind, at: now - line.base });
      }
      await settle();
      if (talks === before) break;
    }
  };

  // What workers drew on canvases of the page, those too that have ended since they were asked last.
  const drawnByWorkers = async () => {
    for (const line of [...workers]) {
      const said = line.draws && await line.ask({ kind: "show" });
      if (said) left.push(...said.shown);
    }
    await Promise.all(ends);
    return left.splice(0);
  };

  // ---- moving ---------------------------------------------------------------------------------------------------
  // Move to a frame's time: its timers, then its animation frames.
  const move = async (ms) => { await moveTimers(ms); await moveFrame(); };
  const moveTimers = async (ms) => {
    seed(ms * 1000 + 1);
    if (ms > now) await fireTimers(ms);
    now = ms;
  };
  const moveFrame = async () => {
    await moveWorkers("frame");
    seed(now * 1000 + 2);
    await fireFrames();
    await settle();
    await moveWorkers("time");
  };
  // Between frames: timers alone.
  const moveTime = async (ms) => {
    await fireTimers(ms);
    now = Math.max(now, ms);
    await settle();
    await moveWorkers("time");
  };
  const tick = async () => { await fireTimers(now + 1000 / 60); now += 1000 / 60; await fireFrames(); await moveWorkers("tick"); };
  const begin = async () => {
    await settle();
    await fireTimers(now);
    for (const timer of timers.values()) timer.due = Math.max(0, timer.due - now);
    requeue();
    now = 0;
    booting = false;
    await moveWorkers("begin");
  };
  return {
    MARK, BASE, native, define, call, measure, seed, soon, task, settle, fireTimers, fireFrames, move, moveTimers, moveFrame, moveTime, tick, begin, drawnByWorkers,
    now: () => now, onPass: (run) => { passes = run; }, draws: () => draws(), onDraws: (run) => { draws = run; }, workers: () => [...workers].filter((line) => line.asked.length).map((line) => line.name),
  };
};
