// Film and sound of a page: what plays, plays by the clock; at each frame every element is sought to its time.
const kodaMedia = (clock, roots) => {
  const LOOKS = 120; // after so many a film that shows nothing new is taken to have nothing new
  const AGAIN = [6, 20, 60]; // looks after which it is sought again: now and then nobody is told of a picture that is there
  const EARLY_S = 0.001; // past the beginning of a picture, so that no rounding shows the one before
  const OWN = ["play", "playing", "pause", "timeupdate", "ended", "waiting"]; // what the browser tells of its own playing
  const proto = HTMLMediaElement.prototype;
  const own = (name) => Object.getOwnPropertyDescriptor(proto, name);
  const native = { play: proto.play, pause: proto.pause, currentTime: own("currentTime"), paused: own("paused"), duration: own("duration"), seeking: own("seeking"), readyState: own("readyState"), error: own("error"), playbackRate: own("playbackRate"), onPicture: HTMLVideoElement.prototype.requestVideoFrameCallback, listen: EventTarget.prototype.addEventListener };
  const read = (element, name) => native[name].get.call(element);
  const states = new WeakMap();
  const met = new Set(); // references to them, in order: one that nobody has any more is nobody's to see or to hear
  const playing = new Set(); // what plays goes on without anybody who has it
  const stateOf = (element) => {
    if (!states.has(element)) {
      states.set(element, { at: 0, since: clock.now(), playing: false, ended: false, shown: null, begun: false });
      met.add(new WeakRef(element));
      for (const type of OWN) native.listen.call(element, type, keepQuiet, true); // the window hears of none that is not in the page
    }
    return states.get(element);
  };
  const all = () => {
    const found = [];
    for (const reference of met) {
      const element = reference.deref();
      if (element) found.push([element, states.get(element)]);
      else met.delete(reference);
    }
    return found;
  };
  const setPlaying = (element, now) => {
    stateOf(element).playing = now;
    now ? playing.add(element) : playing.delete(element);
  };
  const timeOf = (element) => {
    const state = stateOf(element), duration = read(element, "duration");
    let at = state.playing ? state.at + (clock.now() - state.since) / 1000 * element.playbackRate : state.at;
    if (duration > 0 && Number.isFinite(duration)) at = element.loop ? at % duration : Math.min(at, duration);
    return at;
  };
  const stay = (element, at) => Object.assign(stateOf(element), { at, since: clock.now() });
  const tell = (element, ...types) => { for (const type of types) element.dispatchEvent(new Event(type)); };
  const soon = (element, ...types) => clock.soon(() => tell(element, ...types));

  proto.play = function play() {
    const state = stateOf(this);
    state.begun = true;
    if (!state.playing) {
      stay(this, state.ended ? 0 : timeOf(this));
      setPlaying(this, true);
      state.ended = false;
      soon(this, "play", "playing");
    }
    return Promise.resolve();
  };
  proto.pause = function pause() {
    const state = stateOf(this);
    state.begun = true;
    if (!read(this, "paused")) native.pause.call(this);
    if (!state.playing) return;
    stay(this, timeOf(this));
    setPlaying(this, false);
    soon(this, "timeupdate", "pause");
  };
  const show = (element, at) => {
    const state = stateOf(element), number = state.number = (state.number || 0) + 1;
    Object.assign(state, { shown: at, looks: 0 });
    native.currentTime.set.call(element, at);
    if (!element.videoWidth || !native.onPicture) return;
    state.awaited = number; // it says that it has sought a little before its picture is the new one
    native.onPicture.call(element, () => { if (state.awaited === number) state.awaited = null; });
  };
  const late = (element, state) => {
    if (read(element, "seeking") || read(element, "readyState") < 2) return true;
    if (!state.awaited || ++state.looks >= LOOKS) return false;
    if (AGAIN.includes(state.looks)) native.currentTime.set.call(element, state.shown);
    return true;
  };
  Object.defineProperty(proto, "currentTime", {
    ...native.currentTime,
    get() { return timeOf(this); },
    set(value) { // at once: whoever sets it may wait for `seeked`
      stay(this, Number(value) || 0).ended = false;
      show(this, timeOf(this) + EARLY_S);
    },
  });
  clock.define(proto, "paused", function () { return !stateOf(this).playing; });
  clock.define(proto, "ended", function () { return stateOf(this).ended; });
  Object.defineProperty(proto, "playbackRate", {
    ...native.playbackRate,
    set(value) { stay(this, timeOf(this)); native.playbackRate.set.call(this, value); },
  });
  // What the browser begins by itself (autoplay) begins by the clock instead, and nobody hears of the other.
  const keepQuiet = (event) => {
    if (!event.isTrusted || !(event.target instanceof HTMLMediaElement)) return;
    event.stopImmediatePropagation();
    if (event.type === "play") { native.pause.call(event.target); event.target.play(); }
  };
  for (const type of OWN) addEventListener(type, keepQuiet, true);

  // ---- callbacks for each picture of a film ---------------------------------------------------------------------
  let ids = 1;
  const callbacks = new Map();
  if (window.HTMLVideoElement && HTMLVideoElement.prototype.requestVideoFrameCallback) {
    HTMLVideoElement.prototype.requestVideoFrameCallback = function (callback) {
      callbacks.set(ids, { element: this, callback });
      return ids++;
    };
    HTMLVideoElement.prototype.cancelVideoFrameCallback = (id) => { callbacks.delete(id); };
  }
  const callBack = () => {
    for (const [id, { element, callback }] of [...callbacks]) {
      const state = stateOf(element);
      if (state.told === state.shown || !element.videoWidth) continue;
      callbacks.delete(id);
      state.telling = state.shown;
      const now = clock.now();
      clock.call(callback, [now, {
        presentationTime: now, expectedDisplayTime: now, mediaTime: timeOf(element), presentedFrames: Math.round(timeOf(element) * 60),
        width: element.videoWidth, height: element.videoHeight, processingDuration: 0,
      }]);
    }
    for (const [, state] of all()) state.told = state.telling;
  };

  // ---- what sounds ----------------------------------------------------------------------------------------------
  if (window.AudioContext) {
    const begun = new WeakMap();
    const { currentTime } = Object.getOwnPropertyDescriptors(BaseAudioContext.prototype);
    clock.define(BaseAudioContext.prototype, "currentTime", function () {
      if (!(this instanceof AudioContext)) return currentTime.get.call(this);
      if (!begun.has(this)) begun.set(this, clock.now());
      return (clock.now() - begun.get(this)) / 1000;
    });
  }

  // ---- frames ---------------------------------------------------------------------------------------------------
  const look = () => {
    for (const root of roots()) {
      for (const element of root.querySelectorAll("video, audio")) {
        const state = stateOf(element);
        if (!read(element, "paused")) { native.pause.call(element); state.begun || element.play(); }
        if (element.autoplay && !state.begun) element.play();
        if (element.preload !== "auto") element.preload = "auto";
      }
    }
  };
  const within = (at, duration) => Math.min(at + EARLY_S, Number.isFinite(duration) ? Math.max(0, duration - EARLY_S) : Infinity);
  const place = () => {
    look();
    for (const [element, state] of all()) {
      const at = timeOf(element), duration = read(element, "duration");
      if (state.playing && !element.loop && duration > 0 && at >= duration) {
        stay(element, duration);
        setPlaying(element, false);
        state.ended = true;
        soon(element, "timeupdate", "ended");
      } else if (state.playing) {
        soon(element, "timeupdate");
      }
      const sought = within(at, duration);
      if (state.shown !== sought && read(element, "readyState") > 0) show(element, sought);
    }
  };
  const pending = () => {
    const names = [];
    for (const [element, state] of all()) {
      if (element.networkState === HTMLMediaElement.NETWORK_NO_SOURCE || read(element, "error")) continue;
      if (!element.currentSrc && !element.src) continue;
      const what = `${element.localName} ${element.currentSrc || element.src}`;
      if (read(element, "readyState") === 0) { if (element.isConnected || state.playing) names.push(what); continue; }
      if (state.shown === null) show(element, within(timeOf(element), read(element, "duration")));
      if (late(element, state)) names.push(`${what} at ${timeOf(element).toFixed(2)} s`);
    }
    if (!names.length) callBack();
    return names;
  };
  const rebase = () => { for (const [, state] of all()) state.since = 0; };
  const hasFilms = () => all().some(([element]) => element.localName === "video");
  return { place, pending, rebase, look, hasFilms };
};
