// A worker's clock, moved by its page: see `moveWorkers`.
((clock) => {
  const postMessage = self.postMessage.bind(self);
  const fetch = self.fetch.bind(self), importScripts = self.importScripts.bind(self);
  const offscreen = kodaOffscreen(clock);
  let last = Promise.resolve(), requests = 0;
  const whole = (url) => (typeof url === "string" && self[clock.BASE] ? String(new URL(url, self[clock.BASE])) : url);
  self.fetch = (url, ...rest) => {
    requests += 1;
    return fetch(whole(url), ...rest).finally(() => { requests -= 1; });
  };
  self.importScripts = (...urls) => importScripts(...urls.map(whole));
  const close = self.close.bind(self);
  const say = (what, shown) => postMessage({ [clock.MARK]: what, shown }, shown.map(([, bitmap]) => bitmap));
  // Its last pictures go ahead of it. Chromium shows what was drawn in an animation frame before a worker closes itself,
  // and by chance what was drawn in the same task: always, here.
  let ended = null;
  const end = async () => {
    let shown = [];
    try { shown = await offscreen.last(); } finally { say("end", shown); close(); }
  };
  const finish = () => (ended ??= Promise.resolve().then(end));
  self.close = () => { finish(); };
  clock.onDraws(() => say("draws", []));
  const show = async () => {
    const shown = await offscreen.show();
    kodaCanvas.next();
    say(true, shown);
  };
  const obey = async ({ kind, at }) => {
    if (kind === "show") return show();
    if (kind === "end") return finish();
    if (kind === "begin") await clock.begin();
    else if (kind === "tick") await clock.tick();
    else if (kind === "frame") await clock.move(at);
    else await clock.moveTime(at);
    while (requests) await clock.task();
    await clock.settle();
    postMessage({ [clock.MARK]: true });
  };
  self.addEventListener("message", (event) => {
    const order = event.data && event.data[clock.MARK];
    if (!order) return;
    event.stopImmediatePropagation();
    last = last.then(() => obey(order));
  });
})(kodaClock(self, __SEED__));
