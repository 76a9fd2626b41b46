// Takes a picture of a project's page at one time, inside the sandbox: builds the project where it has changed, opens it
// in a Chromium whose frames are asked for one by one, moves it to that time, and writes the picture.
//
// The page is hostile and so is whatever else runs in here; the sandbox is the wall. So Chromium runs without a sandbox of
// its own, as the user that the project's code runs as already, and reaches no more than that code does.
//
// It is brought in with each call (screenshot.py): the argument is what is asked for, as JSON. What is not right ends with
// one of the codes below and says why on standard error.
import { spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import fs from "node:fs";
import path from "node:path";

const DOES_NOT_BUILD = 65, NO_BROWSER = 69, NO_PICTURE = 70, DOES_NOT_SEEK = 75;
const ORIGIN = "https://bundle.koda"; // a secure context, as the live preview's localhost is
const SHELLS = ["/usr/lib/chromium/chromium-headless-shell", "/usr/bin/chromium-headless-shell", "/usr/bin/chrome-headless-shell"];
const BROWSERS = ["/usr/lib/chromium/chromium", "/usr/bin/chromium", "/usr/bin/google-chrome"];
const EGL = ["/usr/share/glvnd/egl_vendor.d/50_mesa.json", "/etc/glvnd/egl_vendor.d/50_mesa.json"];
const HIDDEN = new Set(["node_modules", "dist", ".vite", ".git"]);
const TYPES = {
  ".html": "text/html", ".js": "text/javascript", ".mjs": "text/javascript", ".css": "text/css", ".json": "application/json",
  ".svg": "image/svg+xml", ".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".webp": "image/webp",
  ".gif": "image/gif", ".avif": "image/avif", ".wasm": "application/wasm", ".woff2": "font/woff2", ".woff": "font/woff",
  ".ttf": "font/ttf", ".mp4": "video/mp4", ".webm": "video/webm", ".mp3": "audio/mpeg", ".wav": "audio/wav",
};
const PROFILE = "koda-still-", BUNDLE = "bundle-";
const TICK_MS = 1000 / 60, POLL_MS = 10, QUIET_ROUNDS = 3, GRACE_MS = 2000, LEFT_MS = 600_000, MOST_REFUSED = 20;

const asked = JSON.parse(globalThis.kodaAsked);
const folder = path.resolve(asked.folder), own = path.join(folder, `${asked.name}.building`);
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

class Failed extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

// what calls that were ended in the middle left, and bundles of other sources that no call can be using any more
const sweep = (bundle) => {
  const clear = (name, afterMs) => {
    try { if (Date.now() - fs.lstatSync(name).mtimeMs > afterMs) fs.rmSync(name, { recursive: true, force: true }); } catch {} // another call's, or gone
  };
  for (const name of fs.readdirSync("/tmp")) if (name.startsWith(PROFILE)) clear(`/tmp/${name}`, LEFT_MS);
  for (const name of fs.readdirSync(folder)) {
    const left = path.join(folder, name);
    if (left !== bundle) clear(left, name.startsWith(BUNDLE) ? 2 * asked.readyMs + GRACE_MS : LEFT_MS);
  }
};

// ---- the build ----------------------------------------------------------------------------------------------------

const sources = (below, hash) => {
  for (const entry of fs.readdirSync(below, { withFileTypes: true }).sort((a, b) => (a.name < b.name ? -1 : 1))) {
    const name = path.join(below, entry.name);
    if (HIDDEN.has(entry.name)) continue;
    if (entry.isDirectory()) sources(name, hash);
    else if (entry.isFile()) {
      const info = fs.statSync(name, { bigint: true });
      hash.update(`${name}\0${info.size}\0${info.ctimeNs}\0${info.ino}\n`);
    }
  }
  return hash;
};

// Several calls may be under way at once, so each builds into a folder of its own, which gets the name of its sources once it is
// whole: nothing is changed below a page that is open. Each use is noted as the folder's time.
const build = () => {
  const fresh = () => path.join(folder, `${BUNDLE}${sources(".", createHash("sha256")).digest("hex").slice(0, 32)}`);
  const bundle = fresh(), now = new Date();
  try {
    fs.utimesSync(bundle, now, now);
    return bundle;
  } catch {} // it was never built
  fs.mkdirSync(folder, { recursive: true });
  const done = spawnSync(process.execPath, [...asked.build, "--outDir", own], { encoding: "utf8", maxBuffer: 1 << 24 });
  if (done.status !== 0) throw new Failed(DOES_NOT_BUILD, `${done.stdout}\n${done.stderr}`);
  if (!fs.existsSync(path.join(own, "index.html"))) throw new Failed(DOES_NOT_BUILD, "the build left no index.html");
  if (fresh() !== bundle) return own; // somebody wrote meanwhile: it is nobody else's
  try { fs.renameSync(own, bundle); } catch (error) { if (!fs.existsSync(bundle)) throw error; } // another call was first
  return bundle;
};

// ---- the browser --------------------------------------------------------------------------------------------------

const find = () => {
  const usable = (names) => names.find((name) => fs.existsSync(name));
  const shell = usable(SHELLS), full = usable(BROWSERS);
  if (!shell && !full) throw new Failed(NO_BROWSER, `none of ${[...SHELLS, ...BROWSERS].join(", ")} is there`);
  return { binary: shell ?? full, stepped: shell !== undefined };
};

const launch = ({ binary, stepped }) => {
  const profile = fs.mkdtempSync(`/tmp/${PROFILE}`);
  const angle = EGL.some((name) => fs.existsSync(name)) ? ["--use-angle=gl-egl", "--ignore-gpu-blocklist"] : ["--use-angle=swiftshader"];
  const flags = [
    ...asked.flags, "--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--no-zygote", "--disable-dev-shm-usage",
    "--use-gl=angle", "--enable-unsafe-swiftshader", "--disable-gpu-compositing", ...angle, `--user-data-dir=${profile}`,
    ...(stepped ? ["--enable-begin-frame-control", "--run-all-compositor-stages-before-draw", "--disable-new-content-rendering-timeout"] : []),
  ];
  const env = { PATH: "/usr/bin:/bin", HOME: profile, TMPDIR: "/tmp", LANG: "C.UTF-8", TZ: "UTC", LP_NUM_THREADS: "0" };
  const child = spawn(binary, [...flags, "about:blank"], { env, stdio: ["ignore", "ignore", "pipe", "pipe", "pipe"] });
  let words = "";
  child.stderr.on("data", (data) => { words = (words + data).slice(-4000); });
  const waiting = new Map(), heard = new Map();
  let next = 0, rest = Buffer.alloc(0), over = null;
  const end = (why) => {
    over ??= new Failed(NO_PICTURE, `${why}: ${words.trim().split("\n").slice(-4).join(" | ") || "it said nothing"}`);
    for (const { reject } of waiting.values()) reject(over);
    waiting.clear();
  };
  child.on("error", (error) => end(String(error)));
  child.on("exit", (code, signal) => end(`the browser ended (${signal ?? code})`));
  child.stdio[3].on("error", () => {});
  child.stdio[4].on("data", (data) => {
    rest = Buffer.concat([rest, data]);
    for (let at; (at = rest.indexOf(0)) >= 0; rest = rest.subarray(at + 1)) {
      const said = JSON.parse(rest.subarray(0, at));
      const call = waiting.get(said.id);
      waiting.delete(said.id);
      if (call) said.error ? call.reject(new Failed(NO_PICTURE, `${call.method}: ${said.error.message}`)) : call.resolve(said.result);
      else for (const take of heard.get(said.method) ?? []) take(said.params, said.sessionId);
    }
  });
  return {
    stepped,
    send: (method, params = {}, sessionId = undefined) => new Promise((resolve, reject) => {
      if (over) return reject(over);
      waiting.set(++next, { method, resolve, reject });
      child.stdio[3].write(`${JSON.stringify({ id: next, method, params, sessionId })}\0`);
    }),
    on: (method, take) => heard.set(method, [...(heard.get(method) ?? []), take]),
    close: () => {
      child.kill("SIGKILL");
      fs.rmSync(profile, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 });
    },
  };
};

// ---- the page -----------------------------------------------------------------------------------------------------

// As the renderer does (koda_ray/render/page.py), whose clock comes in with the question: the same steps in the same order.
const open = async (browser, bundle) => {
  const { targetId } = await browser.send("Target.createTarget", {
    url: "about:blank", width: asked.width, height: asked.height, ...(browser.stepped ? { enableBeginFrameControl: true } : {}),
  });
  const { sessionId } = await browser.send("Target.attachToTarget", { targetId, flatten: true });
  const send = (method, params, session = sessionId) => browser.send(method, params, session);
  const problems = [], underWay = new Map(), refused = new Set();
  const refuse = (what) => refused.size < MOST_REFUSED && refused.add(what.slice(0, 200));
  const quietly = (promise) => promise.catch(() => {});
  browser.on("Runtime.exceptionThrown", ({ exceptionDetails: it }) => problems.push(it.exception?.description ?? it.text));
  browser.on("Page.javascriptDialogOpening", () => quietly(send("Page.handleJavaScriptDialog", { accept: false })));
  // what the browser itself does not let a page do: it never becomes a request
  browser.on("Log.entryAdded", ({ entry: { text } }) => /Not allowed to load local resource/.test(text) && refuse(text));
  browser.on("Inspector.targetCrashed", () => problems.push("the page's process ended (out of memory?)"));
  browser.on("Network.requestWillBeSent", ({ requestId, request, type }) => {
    if (!["Media", "EventSource", "WebSocket", "Ping", "Prefetch"].includes(type)) underWay.set(requestId, request.url.slice(0, 300));
  });
  for (const event of ["Network.loadingFinished", "Network.loadingFailed"]) browser.on(event, ({ requestId }) => underWay.delete(requestId));
  browser.on("Fetch.requestPaused", ({ requestId, request }, session) => {
    const url = new URL(request.url);
    if (url.origin !== ORIGIN) {
      refuse(`${url.protocol}//${url.host}`);
      return quietly(send("Fetch.failRequest", { requestId, errorReason: "BlockedByClient" }, session));
    }
    const name = path.join(bundle, decodeURIComponent(url.pathname));
    let body = null;
    if (`${name}/`.startsWith(`${bundle}/`)) try { body = fs.readFileSync(name); } catch {} // it is not in the bundle
    const responseHeaders = [
      { name: "content-type", value: TYPES[path.extname(name).toLowerCase()] ?? "application/octet-stream" },
      { name: "access-control-allow-origin", value: "*" },
    ];
    quietly(send("Fetch.fulfillRequest", { requestId, responseCode: body ? 200 : 404, responseHeaders, body: (body ?? Buffer.alloc(0)).toString("base64") }, session));
  });
  const serve = (session) => [send("Fetch.enable", { patterns: [{ urlPattern: "*" }] }, session), send("Network.enable", {}, session)];
  // workers stop before their first line, so that they get their clock
  const workers = { autoAttach: true, waitForDebuggerOnStart: true, flatten: true, filter: [{ type: "worker" }] };
  browser.on("Target.attachedToTarget", ({ sessionId: worker, targetInfo }) => {
    if (targetInfo.type !== "worker") return;
    for (const call of [
      send("Runtime.enable", {}, worker), ...serve(worker), send("Runtime.evaluate", { expression: asked.workerClock }, worker),
      send("Target.setAutoAttach", workers, worker), send("Runtime.runIfWaitingForDebugger", {}, worker),
    ]) quietly(call);
  });
  await send("Emulation.setDeviceMetricsOverride", { width: asked.width, height: asked.height, deviceScaleFactor: 1, mobile: false });
  await send("Emulation.setFocusEmulationEnabled", { enabled: true });
  await Promise.all([
    send("Runtime.enable"), send("Page.enable"), send("Inspector.enable"), send("Log.enable"), ...serve(sessionId),
    send("Page.addScriptToEvaluateOnNewDocument", { source: asked.clock }),
    send("Page.addScriptToEvaluateOnNewDocument", { source: asked.frameClock, worldName: "koda" }), send("Target.setAutoAttach", workers),
  ]);
  await send("Page.navigate", { url: `${ORIGIN}/index.html?export=1` });

  let ticks = 100_000, zero = ticks, now = 0;
  const because = () => (problems.length ? `; the page threw: ${problems[0].slice(0, 1000)}` : "");
  const frame = async (more = {}) => {
    if (!browser.stepped) return {};
    ticks = Math.max(ticks + 0.001, zero + now);
    return send("HeadlessExperimental.beginFrame", { frameTimeTicks: ticks, interval: TICK_MS, ...more });
  };
  const evaluate = async (expression) => {
    const answer = await send("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true });
    if (answer.exceptionDetails) {
      const it = answer.exceptionDetails;
      throw new Failed(DOES_NOT_SEEK, `${it.exception?.description ?? it.text}`.slice(0, 2000));
    }
    return answer.result.value;
  };
  const coming = (names) => [...new Set([...(names ?? []), ...[...underWay.values()].map((url) => `request ${url}`)])];

  const ready = async () => {
    const ends = Date.now() + asked.readyMs;
    let pending = [], quiet = 0, threw = 0;
    while (quiet < QUIET_ROUNDS) {
      let status = null;
      try { status = await evaluate("window.__kodaRender?.status() ?? null"); } catch (error) { if (!/navigated|context/i.test(error.message)) throw error; }
      await frame();
      pending = status ? coming(status.pending) : ["the document"];
      if (status?.failed) throw new Failed(DOES_NOT_SEEK, `${status.failed}${because()}`);
      quiet = pending.length ? 0 : quiet + 1;
      if (status?.stuck) {
        threw ||= problems.length ? Date.now() : 0;
        if (threw && Date.now() - threw > GRACE_MS) throw new Failed(DOES_NOT_SEEK, `the page did not become ready${because()}`);
        await evaluate("window.__kodaRender.bootTick()");
      }
      if (Date.now() > ends) throw new Failed(DOES_NOT_SEEK, `the page was not ready after ${asked.readyMs / 1000} s, waiting for ${pending.join(", ")}${because()}`);
      await sleep(POLL_MS);
    }
    const facts = await evaluate("window.__kodaRender.begin()");
    zero = Math.ceil(ticks);
    return facts;
  };
  const arrive = async (names, ask) => {
    const ends = Date.now() + asked.readyMs;
    while (names.length) {
      if (Date.now() > ends) throw new Failed(DOES_NOT_SEEK, `still waiting for ${names.join(", ")}${because()}`);
      await frame({ noDisplayUpdates: true });
      await sleep(POLL_MS);
      names = coming(await evaluate(`window.__kodaRender.${ask}()`));
    }
  };
  const step = async (ms) => {
    now = ms;
    let names = await evaluate(`window.__kodaRender.frame(${JSON.stringify(ms)})`);
    if (names === null || names === undefined) {
      await arrive(["a film"], "films");
      names = await evaluate("window.__kodaRender.rest()");
    }
    await arrive(coming(names), "again");
  };
  // a page with the contract jumps; any other is stepped through every frame, because it may add up what passes
  const go = async (facts) => {
    const fps = facts?.fps || asked.fps;
    const index = Math.round(asked.atS * fps);
    for (let at = facts?.contract ? index : 0; at < index; at++) {
      await step((at * 1000) / fps);
      await frame({ noDisplayUpdates: true });
    }
    await step(facts?.contract ? asked.atS * 1000 : (index * 1000) / fps);
    await frame();
  };
  const picture = async () => {
    const options = { format: "png", optimizeForSpeed: false };
    if (browser.stepped) return (await frame({ screenshot: options })).screenshotData;
    await evaluate("window.__kodaRender.painted()");
    return (await send("Page.captureScreenshot", options)).data;
  };
  await send("Emulation.setDefaultBackgroundColorOverride", { color: { r: 255, g: 255, b: 255, a: 1 } });
  return { ready, go, picture, refused };
};

const main = async () => {
  const bundle = build();
  sweep(bundle);
  const browser = launch(find());
  let page = null, said = {};
  try {
    page = await open(browser, bundle);
    const facts = await page.ready();
    await page.go(facts);
    const data = await page.picture();
    if (!data) throw new Failed(NO_PICTURE, "the browser painted nothing");
    const target = path.join(folder, asked.name);
    fs.writeFileSync(`${target}.part`, Buffer.from(data, "base64"));
    fs.renameSync(`${target}.part`, target);
    const number = (value) => (Number.isFinite(value) ? value : null);
    said = { contract: facts.contract === true, duration: number(facts.duration) };
  } finally {
    console.log(JSON.stringify({ ...said, refused: [...(page?.refused ?? [])] }));
    browser.close();
  }
};

const cleared = main().finally(() => fs.rmSync(own, { recursive: true, force: true }));

cleared.then(() => process.exit(0), (error) => {
  console.error(error instanceof Failed ? error.message : error?.stack ?? error);
  process.exit(error?.code >= 64 ? error.code : NO_PICTURE);
});
