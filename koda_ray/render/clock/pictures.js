// Pictures that move by themselves, in their places: a picture of what the clock says is shown instead of each.
//
// Places are what a style names (of an element, or of what lies beside it: before, after, its marker, its first letter),
// <img>, what other elements name, and what a page draws into a canvas.
const kodaPictures = (clock, native, roots, quietly) => {
  const none = { meet() {}, mayName() {}, begin() {}, isOurs() {}, async prepare() {}, async place() {} };
  if (!__DRAWINGS__ && !__PICTURES__) return none;
  const films = kodaFilms(clock, native);
  const URLS = /url\("((?:[^"\\]|\\.)*)"\)/g;
  const BOX = ["background-image", "border-image-source", "mask-image", "-webkit-mask-box-image-source"];
  const isListed = (_, { display }) => display.includes("list-item");
  const BESIDE = [ // where, what may name a picture there, and who has such a place
    ["::before", [...BOX, "content"], () => true],
    ["::after", [...BOX, "content"], () => true],
    ["::marker", ["content"], isListed],
    ["::first-letter", BOX.slice(0, 2), () => true],
    ["::first-line", BOX.slice(0, 1), () => true],
    ["::backdrop", BOX, (element) => element.matches("dialog, [popover], :fullscreen")],
    ["::placeholder", BOX.slice(0, 1), (element) => element.matches("input, textarea")],
  ];
  const TIMES = ["transition-duration", "transition-delay"];
  const ELEMENTS = "img, input[type=image], video[poster], image, feImage, object, embed";
  const shown = new WeakMap(); // style, or what else names a picture -> name -> what was put there, and what had been
  const styled = new Map(); // element -> what of its styles may move
  const addressOf = (css) => css.replaceAll(/\\(.)/g, "$1");
  const movesIn = (css) => css !== "none" && [...css.matchAll(URLS)].some(([, url]) => films.mightMove(addressOf(url)));

  // What the page had said in the same place comes back, unless it has said something else since.
  const read = (owner, name) => (owner instanceof CSSStyleDeclaration ? [owner.getPropertyValue(name), owner.getPropertyPriority(name)] : [owner[name]]);
  const write = (owner, name, [value, priority]) => { owner instanceof CSSStyleDeclaration ? owner.setProperty(name, value, priority) : owner[name] = value; };
  const ours = (owner, name) => {
    const last = shown.get(owner)?.get(name);
    return last && last.there === read(owner, name)[0] ? last : null;
  };
  const put = (owner, name, value) => {
    const last = ours(owner, name);
    if (last ? last.value === value : !value) return;
    const was = last ? last.was : read(owner, name);
    quietly(() => write(owner, name, value ? [value, "important"] : was));
    if (!shown.has(owner)) shown.set(owner, new Map());
    if (value) shown.get(owner).set(name, { value, was, there: read(owner, name)[0] });
    else shown.get(owner).delete(name);
  };

  // ---- styles ---------------------------------------------------------------------------------------------------
  const MARKED = "data-koda-moved";
  const sheets = new WeakMap(); // document or shadow root -> its style sheet of ours
  const rules = new Map(); // element -> beside -> its rule there
  let marks = 0;
  const forget = (element) => {
    for (const rule of rules.get(element)?.values() ?? []) {
      const { parentStyleSheet: sheet } = rule;
      sheet.deleteRule([...sheet.cssRules].indexOf(rule));
    }
    rules.delete(element);
    styled.delete(element);
  };
  const sheetOf = (root) => {
    if (!sheets.has(root)) sheets.set(root, new CSSStyleSheet());
    const sheet = sheets.get(root), { adoptedStyleSheets } = root;
    if (!adoptedStyleSheets.includes(sheet)) adoptedStyleSheets.push(sheet);
    return sheet;
  };
  const styleOf = (element, beside) => {
    if (!beside) return element.style;
    const sheet = sheetOf(element.getRootNode());
    if (!rules.has(element)) rules.set(element, new Map());
    const known = rules.get(element);
    if (known.get(beside)?.parentStyleSheet !== sheet) {
      if (!element.hasAttribute(MARKED)) element.setAttribute(MARKED, marks += 1);
      const end = sheet.cssRules.length, strong = ":not(#koda-none#koda-none)"; // than a page's own that are important
      sheet.insertRule(`[${MARKED}="${element.getAttribute(MARKED)}"]${strong}${beside} {}`, end);
      known.set(beside, sheet.cssRules[end]);
    }
    return known.get(beside).style;
  };
  // What we put there is no change of the page's: no transition begins.
  const still = (element, beside, property, run) => {
    const style = styleOf(element, beside), computed = getComputedStyle(element, beside || null);
    if (!TIMES.some((name) => /[1-9]/.test(computed.getPropertyValue(name)))) return run(style, computed);
    const kept = TIMES.map((name) => [name, read(style, name)]);
    quietly(() => { for (const name of TIMES) write(style, name, ["0s", "important"]); });
    try {
      return run(style, computed);
    } finally {
      computed.getPropertyValue(property);
      quietly(() => { for (const [name, was] of kept) write(style, name, was); });
    }
  };
  const placeStyle = async (element, beside, property) => {
    const wanted = still(element, beside, property, (style, computed) => {
      put(style, property, ""); // what the page wants now
      return computed.getPropertyValue(property);
    });
    const drawn = new Map();
    for (const [whole, url] of wanted.matchAll(URLS)) {
      const film = await films.filmOf(addressOf(url));
      const picture = film && await films.pictureOf(film);
      if (picture) drawn.set(whole, `url("${picture.src}")`);
    }
    const value = wanted.replaceAll(URLS, (whole) => drawn.get(whole) || whole);
    if (drawn.size) still(element, beside, property, (style) => put(style, property, value));
    return drawn.size;
  };
  const note = (element, beside, style, properties) => {
    for (const property of properties) {
      if (!movesIn(style.getPropertyValue(property))) continue;
      if (!styled.has(element)) styled.set(element, new Map());
      styled.get(element).set(beside + property, [beside, property]);
    }
  };
  const meet = (element, style, whole) => {
    note(element, "", style, [...BOX, "content"]);
    if (isListed(element, style)) note(element, "", style, ["list-style-image"]); // it is inherited
    if (!whole) return;
    for (const [beside, properties, has] of BESIDE) {
      if (!has(element, style)) continue;
      const computed = getComputedStyle(element, beside);
      if (!/before|after/.test(beside) || !/^(none|normal)$/.test(computed.content)) note(element, beside, computed, properties);
    }
  };
  // An animation's each step sets a style, which says nothing of ::before where it names no picture.
  const mayName = (element) => /--|url/.test(element.getAttribute("style"));
  const placeStyles = async (element, places) => {
    if (!element.isConnected) return forget(element);
    for (const [name, place] of places) if (!await placeStyle(element, ...place)) places.delete(name);
    if (!places.size) forget(element);
  };

  // ---- elements -------------------------------------------------------------------------------------------------
  const namedBy = (element) => {
    if (element.href) return [element.href, "baseVal"];
    return [element, ["poster", "data"].find((name) => element[name] !== undefined) ?? "src"];
  };
  const isOurs = (element) => Boolean(ours(...namedBy(element))); // what it names now
  const placeImage = async (image) => {
    if (!image.complete || styled.get(image)?.has("content")) return;
    const film = await films.filmOf(image.currentSrc), isSeen = image.getClientRects().length > 0;
    const picture = film && (isSeen || film.drawing) && await films.pictureOf(film); // a canvas draws hidden ones, too
    if (film?.drawing) mayBeDrawn(image); // also where it is in the page no more
    if (isSeen) put(image.style, "content", picture ? `url("${picture.src}")` : "");
  };
  const placeElement = async (element) => {
    const place = namedBy(element), [wanted] = ours(...place)?.was ?? read(...place);
    const film = wanted && await films.filmOf(new URL(wanted, document.baseURI).href).catch(() => null);
    if (film?.drawing && element instanceof SVGImageElement) mayBeDrawn(element);
    const isPage = film?.drawing && /^(OBJECT|EMBED)$/.test(element.tagName); // with a clock of its own
    const picture = film && !isPage && await films.pictureOf(film);
    put(...place, picture ? picture.src : "");
  };

  // ---- canvases -------------------------------------------------------------------------------------------------
  // Of what moves a canvas draws the first picture, but a drawing as it is at that moment.
  const loose = new Set(); // references to images that a script may draw, which need not be in the page
  const references = new WeakMap(); // image -> the reference to it
  const mayBeDrawn = (image) => {
    if (!references.has(image)) references.set(image, new WeakRef(image));
    loose.add(references.get(image));
  };
  const { get, set } = Object.getOwnPropertyDescriptor(HTMLImageElement.prototype, "src");
  const shownBy = (image) => image.currentSrc ?? URL.parse((ours(...namedBy(image))?.was ?? [image.href.baseVal])[0], document.baseURI)?.href ?? "";
  const standIn = (source) => {
    if (!(source instanceof HTMLImageElement || source instanceof SVGImageElement)) return source;
    const film = films.known(shownBy(source));
    if (film?.drawing) mayBeDrawn(source);
    return film?.drawing && film.held ? film.held.image : source;
  };
  if (__DRAWINGS__) {
    Object.defineProperty(HTMLImageElement.prototype, "src", {
      get, configurable: true, enumerable: true,
      set(url) {
        set.call(this, url);
        if (films.mightMove(get.call(this))) mayBeDrawn(this);
      },
    });
    const drawing = { prototypes: ["CanvasRenderingContext2D", "OffscreenCanvasRenderingContext2D"], names: ["drawImage", "createPattern"] };
    const uploading = { prototypes: ["WebGLRenderingContext", "WebGL2RenderingContext"], names: ["texImage2D", "texSubImage2D", "texImage3D", "texSubImage3D"] };
    const owners = [drawing, uploading].flatMap(({ prototypes, names }) => prototypes.map((name) => [window[name]?.prototype, names]));
    for (const [owner, names] of [...owners, [window, ["createImageBitmap"]]]) {
      for (const name of names) {
        const drawn = owner?.[name];
        if (drawn) owner[name] = { [name](...given) { return Reflect.apply(drawn, this, given.map(standIn)); } }[name];
      }
    }
  }
  const prepareLoose = async () => {
    for (const reference of loose) {
      const image = reference.deref();
      if (image && image.complete === false) continue;
      const film = image && await films.filmOf(shownBy(image));
      if (film?.drawing) await films.pictureOf(film);
      else loose.delete(reference);
    }
  };

  return {
    meet, mayName, isOurs, begin: films.begin,
    prepare: async (ms) => { // what callbacks draw on the way to that time
      for (const film of films.asked()) if (film.drawing && film.held) await films.pictureOf(film, ms);
    },
    place: async () => {
      films.nextRound();
      await prepareLoose();
      for (const root of roots()) {
        for (const element of root.querySelectorAll(ELEMENTS)) await (element instanceof HTMLImageElement ? placeImage : placeElement)(element);
      }
      for (const [element, places] of styled) await placeStyles(element, places);
    },
  };
};
