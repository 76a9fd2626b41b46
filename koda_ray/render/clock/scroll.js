// Scrolling that takes time (`behavior: "smooth"`, `scroll-behavior: smooth`), step by step by the clock.
//
// The browser would animate it by a time of its own, so it is started in a way that has it scroll at once. Where that
// leads, snapped and within bounds as ever, is looked up so; then the element is put back, and moved there along the
// curve and in the time that Chromium takes. What the browser scrolls unasked (a link to a place in the page, focus)
// comes at once.
const kodaScroll = (clock, quietly) => {
  const FRAME_MS = 1000 / 60, MAX_MS = 700; // a pixel more is a frame more, by its square root
  const SNAP = "scroll-snap-type";
  const [X1, X2] = [0.42, 0.58]; // ease-in-out
  const own = (name) => Object.getOwnPropertyDescriptor(Element.prototype, name);
  const native = { left: own("scrollLeft"), top: own("scrollTop"), scrollTo: Element.prototype.scrollTo, listen: EventTarget.prototype.addEventListener };
  let direct = false; // while a page is sought: what it shows then is no way from what was shown before
  const moving = new Map(); // element -> {from, to, began, takes, last, snap, done}

  const place = (element) => [native.left.get.call(element), native.top.get.call(element)];
  const put = (element, [left, top]) => native.scrollTo.call(element, { left, top, behavior: "instant" });
  const differ = (one, other) => one[0] !== other[0] || one[1] !== other[1];
  const eased = (part) => {
    let low = 0, high = 1;
    for (let i = 0; i < 40; i++) {
      const t = (low + high) / 2, x = 3 * (1 - t) * (1 - t) * t * X1 + 3 * (1 - t) * t * t * X2 + t * t * t;
      if (x < part) low = t; else high = t;
    }
    return low * low * (3 - 2 * low);
  };

  // A step between two places to snap to would be snapped to one of them.
  const free = (element) => {
    if (getComputedStyle(element).scrollSnapType === "none") return null;
    const { style } = element, before = [style.getPropertyValue(SNAP), style.getPropertyPriority(SNAP)];
    quietly(() => style.setProperty(SNAP, "none", "important"));
    return before;
  };
  const end = (element) => {
    const state = moving.get(element);
    if (!state) return;
    moving.delete(element);
    if (state.snap) quietly(() => element.style.setProperty(SNAP, ...state.snap));
    for (const done of state.done) done();
  };
  const begin = (element, from, to) => {
    end(element);
    if (!differ(from, to)) return;
    const far = Math.max(Math.abs(to[0] - from[0]), Math.abs(to[1] - from[1]));
    const state = { from, to, began: clock.now(), takes: Math.min(Math.sqrt(far) * FRAME_MS, MAX_MS), snap: free(element), done: [] };
    moving.set(element, state);
    put(element, from);
    state.last = place(element);
  };
  const step = (element, state) => {
    const part = (clock.now() - state.began) / state.takes;
    if (!element.isConnected || differ(place(element), state.last)) return end(element); // it is gone, or was scrolled by somebody else
    const share = part < 1 ? eased(part) : 1;
    put(element, part < 1 ? state.from.map((from, axis) => from + (state.to[axis] - from) * share) : state.to);
    state.last = place(element);
    if (part >= 1) end(element);
  };

  // ---- what pages scroll with -----------------------------------------------------------------------------------
  const root = () => document.scrollingElement;
  const isSmooth = (element, behavior) => {
    if (behavior === "smooth" || behavior === "instant") return behavior === "smooth";
    return getComputedStyle(element === root() ? document.documentElement : element).scrollBehavior === "smooth";
  };
  const around = (element) => { // whatever may be scrolled so that it is seen
    const found = [];
    for (let at = element; at; at = at.assignedSlot || at.parentNode || at.host) if (at.nodeType === 1) found.push(at);
    return found;
  };
  const behaviorOf = (given) => (given.length === 1 && given[0] !== null && typeof given[0] === "object" ? given[0].behavior : undefined);
  const scroll = (elements, behavior, run) => {
    const slow = direct ? [] : elements.filter((element) => isSmooth(element, behavior)), before = slow.map(place);
    for (const element of slow) end(element); // it goes on from here
    const answer = run();
    for (const element of elements) {
      const at = slow.indexOf(element), state = moving.get(element);
      if (at >= 0) begin(element, before[at], place(element));
      else if (state && differ(place(element), state.last)) end(element);
    }
    const [first] = slow.filter((element) => moving.has(element));
    if (!first || !answer || typeof answer.then !== "function") return answer;
    return new Promise((resolve) => moving.get(first).done.push(() => resolve(answer)));
  };
  const cover = (owner, names, elementsOf) => {
    for (const name of names) {
      const run = owner[name];
      if (typeof run === "function") owner[name] = { [name](...given) { return scroll(elementsOf(this), behaviorOf(given), () => run.apply(this, given)); } }[name];
    }
  };
  const WAYS = ["scroll", "scrollTo", "scrollBy"];
  cover(Element.prototype, WAYS, (element) => [element]);
  cover(window, WAYS, () => [root()].filter(Boolean));
  cover(Element.prototype, ["scrollIntoView", "scrollIntoViewIfNeeded"], around);
  for (const [name, property] of [["scrollLeft", native.left], ["scrollTop", native.top]]) {
    Object.defineProperty(Element.prototype, name, {
      ...property,
      set(value) { scroll([this], undefined, () => property.set.call(this, value)); },
    });
  }
  // It has ended when we say so, and not with each step.
  native.listen.call(window, "scrollend", (event) => {
    if (event.isTrusted && moving.has(event.target === document ? root() : event.target)) event.stopImmediatePropagation();
  }, true);

  return {
    directly: (now) => { direct = now; },
    begin: () => { for (const state of moving.values()) state.began = 0; },
    move: () => { for (const [element, state] of moving) step(element, state); },
  };
};
