// Pictures that move by themselves, where the browser moves them by a time of its own: drawings (SVG) everywhere, GIF,
// APNG, WebP and AVIF in the full browser, whose frames are not ours. What each shows at which time of the clock.
//
// As in a browser, all that show one file show the same.
const kodaFilms = (clock, native) => {
  const DRAWING = /\.svg([?#]|$)|^data:image\/svg/i;
  const OTHERS = __PICTURES__ && window.ImageDecoder ? /\.(gif|a?png|webp|avif)([?#]|$)|^data:image\/(gif|a?png|webp|avif)|^blob:/i : /^$/;
  const HASTY_US = 10_000, USUAL_US = 100_000; // what claims to last no longer than the first lasts as long as the other
  const films = new Map(); // address -> {film: what is in it, null where nothing moves; size, asked: in which round it was last}
  const MARK = ";koda"; // in the address of a picture of ours
  const mightMove = (url) => (DRAWING.test(url) || OTHERS.test(url)) && !url.slice(0, 32).includes(MARK);

  // ---- drawings -------------------------------------------------------------------------------------------------
  // Nobody can stop the time of a drawing that is a picture. So a copy is made for each frame, which has run as long, in
  // which styles are paused and everything else takes ten thousand times as long: it stands.
  const SLOW = 10_000;
  const TIMED = "animate, animateTransform, animateMotion, animateColor, set";
  const TIME = /^([+-]?)\s*(?:(?:(\d+):)?(\d+):(\d+(?:\.\d+)?)|(\d*\.?\d+)(h|min|s|ms)?)$/;
  const UNITS_S = { h: 3600, min: 60, s: 1, ms: 0.001 };
  const exact = (seconds) => Math.round(seconds * 1e6) / 1e6; // the browser's own unit
  const secondsOf = (text) => {
    const [, sign, hours, minutes, seconds, count, unit] = TIME.exec(text.trim()) || [];
    if (sign === undefined) return null;
    const value = count === undefined ? Number(hours || 0) * 3600 + Number(minutes) * 60 + Number(seconds) : Number(count) * UNITS_S[unit || "s"];
    return sign === "-" ? -value : value;
  };
  const slowed = (text, shift_s) => text.split(";").map((each) => {
    const seconds = secondsOf(each), after = /^(.*[\w)])\s*([+-][^+-]+)$/.exec(each.trim());
    if (seconds !== null) return `${exact((seconds - shift_s) * SLOW)}s`;
    if (!after || secondsOf(after[2]) === null) return each; // by what happens, or never
    const offset = secondsOf(after[2]) * SLOW;
    return `${after[1]}${offset < 0 ? "-" : "+"}${Math.abs(offset)}s`;
  }).join(";");
  const delaysOf = (root) => { // of each element of a drawing that a style moves, as its own styles say
    const host = document.createElement("div"), copy = document.importNode(root, true);
    host.style.cssText = "position: fixed; visibility: hidden";
    native.attachShadow.call(host, { mode: "closed" }).append(copy);
    document.documentElement.append(host);
    const found = [copy, ...copy.querySelectorAll("*")].map((element) => getComputedStyle(element))
      .map(({ animationName, animationDelay }) => (animationName === "none" ? null : animationDelay.split(",").map(parseFloat)));
    host.remove();
    return found;
  };
  const readDrawing = async (url) => {
    const text = await (await native.fetch(url)).text(), page = new DOMParser().parseFromString(text, "image/svg+xml");
    const root = page.documentElement;
    if (root.localName !== "svg") return null;
    for (const script of page.querySelectorAll("script")) script.remove(); // none runs in a picture
    const delays = delaysOf(root);
    if (!page.querySelector(TIMED) && !delays.some(Boolean)) return null;
    const { hash } = new URL(url, document.baseURI);
    const at = (ms) => (ms - film.since) / 1000;
    const draw = async (at_s) => {
      const copy = root.cloneNode(true);
      [copy, ...copy.querySelectorAll("*")].forEach((element, index) => {
        if (!delays[index]) return;
        element.style.setProperty("animation-delay", delays[index].map((delay) => `${exact(delay - at_s)}s`).join(), "important");
        element.style.setProperty("animation-play-state", "paused", "important");
      });
      for (const element of copy.querySelectorAll(TIMED)) {
        const begin = element.getAttribute("begin") || "0s", end = element.getAttribute("end");
        element.setAttribute("begin", slowed(begin, at_s));
        if (end) element.setAttribute("end", slowed(end, at_s));
        for (const name of ["dur", "min", "max", "repeatDur"]) if (element.hasAttribute(name)) element.setAttribute(name, slowed(element.getAttribute(name), 0));
      }
      return `data:image/svg+xml${MARK},${encodeURIComponent(new XMLSerializer().serializeToString(copy))}${hash}`;
    };
    const film = { url, at, draw, since: clock.now(), size: text.length, drawing: true };
    return film;
  };

  // ---- other pictures -------------------------------------------------------------------------------------------
  const readPicture = async (url) => {
    const answer = await native.fetch(url), { type, size } = await answer.clone().blob();
    if (!await ImageDecoder.isTypeSupported(type)) return null;
    const decoder = new ImageDecoder({ data: await answer.arrayBuffer(), type, preferAnimation: true });
    await decoder.tracks.ready;
    await decoder.completed;
    const { frameCount, repetitionCount } = decoder.tracks.selectedTrack;
    if (frameCount < 2) return null;
    const ends = [];
    for (let frameIndex = 0, end = 0; frameIndex < frameCount; frameIndex++) {
      const { image } = await decoder.decode({ frameIndex });
      ends.push(end += (image.duration > HASTY_US ? image.duration : USUAL_US) / 1000);
      image.close();
    }
    const length = ends[frameCount - 1];
    const at = (ms) => {
      const passed = ms - film.since;
      return passed >= length * (repetitionCount + 1) ? frameCount - 1 : ends.findIndex((end) => passed % length < end);
    };
    const draw = async (frameIndex) => {
      const { image } = await decoder.decode({ frameIndex });
      const canvas = document.createElement("canvas");
      Object.assign(canvas, { width: image.displayWidth, height: image.displayHeight });
      canvas.getContext("2d").drawImage(image, 0, 0);
      image.close();
      return canvas.toDataURL().replace(";", `${MARK};`);
    };
    const film = { url, at, draw, since: clock.now(), size };
    return film;
  };

  // What cannot be read is shown as it is; what the render has not got is said anyway.
  const say = console.error;
  const tell = (url, error) => {
    const here = /^(data|blob):/.test(url) || url.startsWith(`${new URL(document.baseURI).origin}/`);
    if (here) say(`picture ${url.slice(0, 100)} moves by the browser's time, if it does, and not by the frame's: ${error && error.message || error}`);
    return null;
  };
  const filmOf = async (url) => {
    if (!mightMove(url)) return null;
    const read = DRAWING.test(url) ? readDrawing : readPicture;
    if (!films.has(url)) keep(url, await read(url).catch((error) => tell(url, error)));
    const known = films.get(url);
    known.asked = round;
    return known.film;
  };

  // A page may make new addresses for each frame. So what is not asked for any more is forgotten, the oldest first, but
  // since when it runs: where it is shown again it is read again. Only a blob may be gone by then.
  const MAX_SIZE = 16 << 20, MAX_SINCE = 10_000, EACH = 200; // characters; digests; about what each takes beside its address
  const since = new Map(); // a digest of a forgotten address -> since when its film runs
  let round = 0, whole = 0;
  const digestOf = (text) => {
    let a = text.length, b = ~a;
    for (let i = 0; i < text.length; i++) {
      const c = text.charCodeAt(i);
      a = Math.imul(a ^ c, 0x01000193);
      b = Math.imul((b ^ c) + (b >>> 15), 0x5bd1e995);
    }
    return `${text.length} ${a} ${b}`;
  };
  const keep = (url, film) => {
    const size = EACH + url.length + (film ? 4 * film.size : 0), before = film && since.size ? digestOf(url) : "";
    if (since.has(before)) film.since = since.get(before);
    films.set(url, { film, size, asked: round });
    whole += size;
  };
  const forget = (url, { film, size }) => {
    films.delete(url);
    whole -= size;
    if (!film) return;
    const name = digestOf(url);
    since.delete(name);
    since.set(name, film.since);
    if (since.size > MAX_SINCE) since.delete(since.keys().next().value);
  };
  const isAsked = ({ asked }) => asked >= round - 1;
  const nextRound = () => {
    round += 1;
    if (whole <= MAX_SIZE) return;
    const unseen = [...films].filter(([url, known]) => !isAsked(known) && !url.startsWith("blob:"));
    unseen.sort(([, one], [, other]) => one.asked - other.asked);
    for (const [url, known] of unseen) if (whole > MAX_SIZE) forget(url, known);
  };

  // A picture of what a film shows, decoded: while it is held, whoever names its address has it at once.
  const pictureOf = async (film, ms = clock.now()) => {
    const at = film.at(ms);
    if (film.held && film.held.at === at) return film.held.image;
    if (film.told) return null;
    const image = new Image();
    try {
      image.src = await film.draw(at);
      await image.decode();
    } catch (error) {
      film.told = true; // a page may forbid it
      return tell(film.url, error);
    }
    film.held = { at, image };
    return image;
  };
  return {
    mightMove, filmOf, pictureOf, nextRound, known: (url) => (films.has(url) && isAsked(films.get(url)) ? films.get(url).film : null),
    asked: () => [...films.values()].filter(isAsked).map(({ film }) => film).filter(Boolean),
    begin: () => { for (const { film } of films.values()) if (film) film.since = 0; },
  };
};
