// What a page's frames are drawn from, as one running digest: equal digests are equal pictures.
//
// Noted are all calls that change a WebGL context, with all they are given, and the document after each frame: its nodes,
// which of them are the same as before, their attributes, and each value that a script wrote into an inline style (what
// styles give back is rounded). What a picture may depend on beside that is not followed but told: then there is no digest.
//
// Nothing of it is trusted to a later look: between what is noted and what is painted nothing may change. Where pages are
// only looked at ("dry") whatever WebGL draws is noted and left undone, which no script can tell that reads nothing back.
const kodaWitness = (() => {
  const none = { arm() {}, next() {}, shown() {}, begin() {}, said: () => null, ours: (run) => run() };
  if (!__WITNESS__ || kodaAlone || window !== parent) return none;
  const DRY = __DRY__;
  const MAX_NODES = 5000, SIZE = 16384;
  const MAX_BYTES = 32 << 20, MAX_ALL_BYTES = 512 << 20; // of one call, and of a page: about half a second
  const { imul } = Math, { isView } = ArrayBuffer, { isArray } = Array;
  const { apply, ownKeys } = Reflect, of = Object.getOwnPropertyDescriptor;
  const { getAnimations } = Document.prototype, { getAttribute } = Element.prototype;
  const getter = (owner, name) => {
    const { get } = of(owner, name);
    return (thing) => apply(get, thing, []);
  };
  const rulesOf = getter(CSSStyleSheet.prototype, "cssRules"), mediaOf = getter(StyleSheet.prototype, "media");
  const attributesOf = getter(Element.prototype, "attributes");
  const topOf = getter(Element.prototype, "scrollTop"), leftOf = getter(Element.prototype, "scrollLeft");
  const mediaTextOf = getter(MediaList.prototype, "mediaText"), adoptedOf = getter(Document.prototype, "adoptedStyleSheets");
  let on = false, why = "", isOurs = false;
  const tell = (what) => { if (on && !why && !isOurs) why = what; };

  // ---- the digest: MurmurHash3, 128 bits, over words -------------------------------------------------------------
  const words = new Uint32Array(SIZE), state = new Uint32Array(4);
  let at = 0, blocks = 0;
  const left = (x, by) => (x << by) | (x >>> (32 - by));
  const mix = (into, given, end) => {
    let [a, b, c, d] = into;
    for (let i = 0; i < end; i += 4) {
      a ^= imul(left(imul(given[i], 0x239b961b), 15), 0xab0e9789);
      a = (imul(left(a, 19) + b, 5) + 0x561ccd1b) | 0;
      b ^= imul(left(imul(given[i + 1], 0xab0e9789), 16), 0x38b34ae5);
      b = (imul(left(b, 17) + c, 5) + 0x0bcaa747) | 0;
      c ^= imul(left(imul(given[i + 2], 0x38b34ae5), 17), 0xa1e38b93);
      c = (imul(left(c, 15) + d, 5) + 0x96cd1c35) | 0;
      d ^= imul(left(imul(given[i + 3], 0xa1e38b93), 18), 0x239b961b);
      d = (imul(left(d, 13) + a, 5) + 0x32ac3b17) | 0;
    }
    into[0] = a; into[1] = b; into[2] = c; into[3] = d;
  };
  const full = () => { mix(state, words, SIZE); at = 0; blocks += 1; };
  const put = (word) => { words[at++] = word; if (at === SIZE) full(); };
  const stir = (x) => {
    x = imul(x ^ (x >>> 16), 0x85ebca6b);
    x = imul(x ^ (x >>> 13), 0xc2b2ae35);
    return x ^ (x >>> 16);
  };
  const digest = () => {
    const end = new Uint32Array(4), rest = new Uint32Array((at + 3) & ~3);
    end.set(state);
    rest.set(words.subarray(0, at));
    mix(end, rest, rest.length);
    mix(end, new Uint32Array([at, blocks, 0, 0]), 4);
    for (let round = 0; round < 2; round++) {
      for (let i = 1; i < 4; i++) end[0] += end[i];
      for (let i = 1; i < 4; i++) end[i] += end[0];
      for (let i = 0; i < 4; i++) end[i] = stir(end[i]);
    }
    let text = "";
    for (let i = 0; i < 4; i++) text += (end[i] + 0x100000000).toString(16).slice(1);
    return text;
  };

  // ---- values ----------------------------------------------------------------------------------------------------
  const double = new Float64Array(1), halves = new Uint32Array(double.buffer);
  const ids = new WeakMap(); // what is one and the same, by when it was first met
  let met = 0;
  const same = (thing) => {
    let id = ids.get(thing);
    if (!id) ids.set(thing, id = met += 1);
    return id;
  };
  const faces = () => { for (const { status } of document.fonts ?? []) put(status === "loaded" ? 1 : 0); };
  let restyled = false; // whether sheets came or went since the document was noted: one may be there for a text alone
  const sheets = () => {
    if (adoptedOf(document).length) tell("an adopted style sheet");
    changes();
    if (!restyled) return;
    for (const sheet of document.styleSheets) {
      const { disabled, href, ownerNode } = sheet;
      put(disabled ? 1 : 0); text(mediaTextOf(mediaOf(sheet))); text(href ?? ownerNode?.textContent ?? "");
    }
  };
  let noted = 0;
  const isTooMuch = (length) => {
    noted += length;
    if (length > MAX_BYTES || noted > MAX_ALL_BYTES) tell("too much data");
    return Boolean(why);
  };
  const text = (value) => {
    if (isTooMuch(4 * value.length)) return;
    put(3); put(value.length);
    for (let i = 0; i < value.length; i++) put(value.charCodeAt(i));
  };
  const bytes = (buffer, start, length) => {
    if (isTooMuch(length)) return;
    put(length);
    if (start & 3) { buffer = buffer.slice(start, start + length); start = 0; }
    const whole = new Uint32Array(buffer, start, length >> 2);
    for (let i = 0; i < whole.length;) {
      const some = whole.subarray(i, i + SIZE - at);
      words.set(some, at);
      i += some.length;
      if ((at += some.length) === SIZE) full();
    }
    for (const byte of new Uint8Array(buffer, start + (length & ~3), length & 3)) put(byte);
  };
  const image = ({ currentSrc, complete, naturalWidth, naturalHeight }) => {
    put(7);
    if (currentSrc && !currentSrc.startsWith(`${location.origin}/`)) tell("a picture that is no file of the bundle");
    text(currentSrc);
    put(complete ? 1 : 0); put(naturalWidth); put(naturalHeight);
  };
  const drawnImage = (node) => { // a drawing is as large as its element and as dark, and a photo turned, as that's style says
    image(node);
    put(node.width); put(node.height);
    const { imageOrientation, colorScheme } = getComputedStyle(node);
    text(imageOrientation ?? ""); text(colorScheme ?? ""); text(apply(getAttribute, node, ["style"]) ?? "");
  };
  const value = (given) => {
    switch (typeof given) {
      case "number":
        if ((given | 0) === given && !Object.is(given, -0)) { put(1); put(given); return; }
        double[0] = given;
        put(2); put(halves[0]); put(halves[1]);
        return;
      case "string": text(given); return;
      case "boolean": put(given ? 9 : 10); return;
      case "undefined": put(11); return;
      case "object": break;
      default: tell(`a ${typeof given}`); return;
    }
    const drawnBy = contexts.get(given);
    if (drawnBy !== undefined) {
      if (drawnBy === FLAT) { put(6); put(same(given)); }
      else tell("a picture made of a canvas that is not flat");
    }
    else if (given === null) put(12);
    else if (isView(given)) {
      put(4); text(Object.prototype.toString.call(given));
      bytes(given.buffer, given.byteOffset, given.byteLength);
    } else if (given instanceof ArrayBuffer) { put(13); bytes(given, 0, given.byteLength); }
    else if (isArray(given)) { put(5); put(given.length); for (let i = 0; i < given.length; i++) value(given[i]); }
    else if (given instanceof HTMLImageElement) drawnImage(given);
    else if (given instanceof ImageData) { put(8); put(given.width); value(given.data); text(given.colorSpace); }
    else if (!(given instanceof Node) && ids.has(given)) { put(6); put(ids.get(given)); }
    else tell(`a picture made of a ${Object.prototype.toString.call(given).slice(8, -1)}`);
  };

  // ---- canvases --------------------------------------------------------------------------------------------------
  const FLAT = "2d", DEEP = "webgl";
  const QUIET = /^(get(?!UniformLocation$|Extension$)|is[A-Z]|check|measureText$|createImageData$)/;
  const TELLING = /^(readPixels|getImageData|getBufferSubData|getQuery|getSync|clientWaitSync|getError|loseContext|makeXRCompatible|copyTex)/;
  const DRAWING = /^(drawArrays|drawElements|drawRange|multiDraw|clear$|clearBuffer|blit|generateMipmap)/;
  const WRITING = /^(fill|stroke)Text$/;
  let calls = 0; // for whoever wants to know that there was none
  const names = new Map(); // what a call is called -> its number
  const itself = (thing) => thing;
  const follow = (target, owner = itself, heeded = [], heed = null) => {
    for (const name of ownKeys(target)) {
      const found = typeof name === "string" && name !== "constructor" ? of(target, name) : null;
      if (!found) continue;
      if (found.set) {
        const { set } = found, isHeeded = heeded.includes(name);
        Object.defineProperty(target, name, { ...found, set(given) {
          calls += 1;
          put(23); put(same(owner(this))); text(name); value(given);
          if (isHeeded) heed(this, name, given);
          apply(set, this, [given]);
        } });
      }
      const run = found.value;
      if (typeof run !== "function") continue;
      if (TELLING.test(name)) {
        target[name] = { [name](...given) { tell(name); return apply(run, this, given); } }[name];
        continue;
      }
      if (QUIET.test(name)) continue;
      const number = names.size, skips = DRY && DRAWING.test(name), isText = WRITING.test(name), isHeeded = heeded.includes(name);
      names.set(`${name} ${number}`, number);
      target[name] = { [name](...given) {
        calls += 1;
        if (why) return skips ? undefined : apply(run, this, given);
        put(14); put(number); put(same(owner(this))); put(given.length);
        for (let i = 0; i < given.length; i++) value(given[i]);
        if (skips) return undefined;
        if (isText) { sheets(); faces(); }
        if (isHeeded) heed(this, name);
        const made = apply(run, this, given);
        if (typeof made === "object" && made !== null && !isArray(made)) put(same(made));
        return made;
      } }[name];
    }
  };
  const owners = new WeakMap(), extensions = new WeakSet();
  for (const { prototype } of [WebGLRenderingContext, WebGL2RenderingContext]) {
    follow(prototype);
    const { getExtension } = prototype;
    prototype.getExtension = function (name) {
      const found = apply(getExtension, this, [name]);
      const methods = found && Object.getPrototypeOf(found);
      if (!methods) return found;
      owners.set(found, this);
      if (!extensions.has(methods)) {
        extensions.add(methods);
        follow(methods, (extension) => owners.get(extension) ?? extension);
      }
      return found;
    };
  }
  // In the document a 2D canvas's own style is what text is written with, and what some colours and filters mean.
  const PLAIN = /^(#[0-9a-f]{3,8}|(rgb|hsl)a?\([\d\s.,%/-]*\)|white|black|transparent|none)$/i;
  const STYLED = ["fillStyle", "strokeStyle", "shadowColor", "filter", "fillText", "strokeText"];
  const LETTERS = ["font", "fontKerning", "fontStretch", "fontVariantCaps", "letterSpacing", "wordSpacing", "textRendering", "direction", "lang"];
  const lettered = new WeakSet(); // canvases whose letters are as their style was when that was said
  follow(CanvasRenderingContext2D.prototype, itself, [...STYLED, ...LETTERS], ({ canvas }, name, given) => {
    if (name === "filter" && String(given).includes("url(")) tell("a filter of the document's");
    if (WRITING.test(name) && lettered.has(canvas)) tell(`a canvas's ${name} by its style`);
    if (!canvas.isConnected || (typeof given === "object" && given !== null)) return;
    if (LETTERS.includes(name)) { lettered.add(canvas); return; }
    if (given === undefined || !PLAIN.test(String(given).trim())) tell(`a canvas's ${name} by its style`);
  });
  follow(CanvasGradient.prototype);
  follow(CanvasPattern.prototype);
  const contexts = new WeakMap(); // canvas -> what draws it
  const { getContext } = HTMLCanvasElement.prototype;
  HTMLCanvasElement.prototype.getContext = function (...given) {
    const context = apply(getContext, this, given);
    if (context === null || contexts.has(this)) return context;
    const isDeep = context instanceof WebGLRenderingContext || context instanceof WebGL2RenderingContext;
    contexts.set(this, isDeep ? DEEP : context instanceof CanvasRenderingContext2D ? FLAT : "");
    put(15); put(same(this)); put(same(context)); put(this.width); put(this.height);
    text(String(given[0])); text(JSON.stringify(context.getContextAttributes?.() ?? null));
    return context;
  };
  for (const name of ["width", "height"]) {
    const found = of(HTMLCanvasElement.prototype, name);
    Object.defineProperty(HTMLCanvasElement.prototype, name, { ...found, set(given) {
      apply(found.set, this, [given]);
      if (contexts.has(this)) { calls += 1; put(16); put(same(this)); text(name); put(apply(found.get, this, [])); }
    } });
  }
  // ---- inline styles ---------------------------------------------------------------------------------------------
  // A style says 1000.12px where 1000.1234px is drawn: so it is what was written that counts, all of it in its order, and
  // what the attribute said before, which is as it was written until a script writes into the style.
  const real = new WeakMap(), shown = new WeakMap(), written = new WeakMap(); // written: element -> its digest so far
  const note = (element, ...what) => {
    calls += 1;
    if (why) return;
    let before = written.get(element);
    if (!before) written.set(element, before = new Uint32Array(4));
    const line = [apply(getAttribute, element, ["style"]), ...what].map((one) => `${String(one).length}:${String(one)}`).join(), given = new Uint32Array((line.length + 4) & ~3);
    for (let i = 0; i < line.length; i++) given[i] = line.charCodeAt(i) + 1;
    if (line.includes("blob:")) tell("a picture that is no file of the bundle");
    mix(before, given, given.length);
  };
  const own = (style) => real.get(style)?.style ?? style;
  const whose = (style) => real.get(style)?.element;
  const CHANGES = ["setProperty", "removeProperty"];
  for (const name of ownKeys(CSSStyleDeclaration.prototype)) {
    const found = of(CSSStyleDeclaration.prototype, name);
    if (name === "constructor" || !found) continue;
    if (typeof found.value === "function") {
      const run = found.value;
      if (name === Symbol.iterator) continue;
      CSSStyleDeclaration.prototype[name] = { [name](...given) {
        if (CHANGES.includes(name) && whose(this)) note(whose(this), name, ...given);
        return apply(run, own(this), given);
      } }[name];
    } else if (found.get) {
      Object.defineProperty(CSSStyleDeclaration.prototype, name, {
        ...found,
        get() { return apply(found.get, own(this), []); },
        ...(found.set && { set(given) { if (whose(this)) note(whose(this), name, given); apply(found.set, own(this), [given]); } }),
      });
    }
  }
  const traps = {
    get: (style, name, proxy) => (name in CSSStyleDeclaration.prototype ? Reflect.get(CSSStyleDeclaration.prototype, name, proxy) : style[name]),
    set(style, name, given, proxy) {
      if (name in CSSStyleDeclaration.prototype) return Reflect.set(CSSStyleDeclaration.prototype, name, given, proxy);
      note(whose(proxy), String(name), given);
      style[name] = given;
      return true;
    },
    defineProperty(style, name, given) { tell("a style's property defined"); return Reflect.defineProperty(style, name, given); },
  };
  for (const { prototype } of [HTMLElement, SVGElement]) {
    const found = of(prototype, "style");
    Object.defineProperty(prototype, "style", {
      ...found,
      get() {
        const style = apply(found.get, this, []);
        let proxy = shown.get(style);
        if (!proxy) {
          proxy = new Proxy(style, traps);
          shown.set(style, proxy);
          real.set(proxy, { style, element: this });
        }
        return proxy;
      },
      set(given) { note(this, "style", given); apply(found.set, this, [given]); },
    });
  }

  // An attribute says a style as rounded: where that is written back, something else is drawn, and it says the same.
  const { Attr } = window, ownerOf = getter(Attr.prototype, "ownerElement");
  const attribute = (element, how, name, said) => {
    const isDrawn = contexts.has(element), isWritten = written.has(element);
    if (!isDrawn && !isWritten) return;
    const called = String(name?.name ?? name).toLowerCase();
    if (isDrawn && (called === "width" || called === "height")) tell("a canvas's size as an attribute");
    if (isWritten && called === "style") note(element, how, name?.value ?? said);
  };
  const WRITERS = [ // of whom, whether a space comes before the name, and what writes an attribute there
    [Element, false, "setAttribute", "setAttributeNode", "setAttributeNodeNS", "removeAttribute", "removeAttributeNode", "toggleAttribute"],
    [Element, true, "setAttributeNS", "removeAttributeNS"],
    [NamedNodeMap, false, "setNamedItem", "setNamedItemNS", "removeNamedItem"], [NamedNodeMap, true, "removeNamedItemNS"],
  ];
  const maps = new WeakMap(); // of attributes -> element
  for (const [{ prototype }, isSpaced, ...names] of WRITERS) {
    for (const name of names) {
      const run = prototype[name];
      prototype[name] = { [name](...given) {
        attribute(maps.get(this) ?? this, name, given[isSpaced ? 1 : 0], given[isSpaced ? 2 : 1]);
        return apply(run, this, given);
      } }[name];
    }
  }
  const attributes = of(Element.prototype, "attributes");
  Object.defineProperty(Element.prototype, "attributes", { ...attributes, get() {
    const map = apply(attributes.get, this, []);
    if (!maps.has(map)) maps.set(map, this);
    return map;
  } });
  for (const [owner, name] of [[Attr.prototype, "value"], [Node.prototype, "nodeValue"], [Node.prototype, "textContent"]]) {
    const found = of(owner, name);
    Object.defineProperty(owner, name, { ...found, set(given) {
      if (this instanceof Attr) attribute(ownerOf(this), name, ownerOf(this) && this.name, given);
      apply(found.set, this, [given]);
    } });
  }

  const copied = (from, to) => { // a copy has the very values, and says them as rounded
    if (written.has(from)) written.set(to, written.get(from).slice());
    for (let one = from.firstChild, other = to.firstChild; one && other; one = one.nextSibling, other = other.nextSibling) copied(one, other);
    return to;
  };
  const { cloneNode } = Node.prototype, { importNode } = Document.prototype;
  Node.prototype.cloneNode = function (...deep) { return copied(this, apply(cloneNode, this, deep)); };
  Document.prototype.importNode = function (node, ...deep) { return copied(node, apply(importNode, this, [node, ...deep])); };

  // ---- what is not followed --------------------------------------------------------------------------------------
  // `name` is a method, or whatever is read; `name=` is what is written.
  const REFUSED = {
    HTMLCanvasElement: ["toDataURL", "toBlob", "captureStream", "transferControlToOffscreen"],
    OffscreenCanvas: ["transferToImageBitmap", "convertToBlob"],
    OffscreenCanvasRenderingContext2D: ["getImageData"],
    GPU: ["requestAdapter"],
    Element: [
      "attachShadow", "animate", "scroll", "scrollTo", "scrollBy", "scrollIntoView", "scrollIntoViewIfNeeded", "scrollTop=",
      "scrollLeft=", "requestFullscreen", "attributeStyleMap", "startViewTransition", "setHTML",
    ],
    HTMLElement: ["attributeStyleMap", "attachInternals", "showPopover", "togglePopover", "focus", "editContext="],
    SVGElement: ["attributeStyleMap", "focus"], MathMLElement: ["style", "focus"],
    Document: [
      "write", "writeln", "open", "execCommand", "startViewTransition", "adoptedStyleSheets=", "designMode=", "createProcessingInstruction",
    ],
    CSSStyleSheet: ["insertRule", "deleteRule", "addRule", "removeRule", "replace", "replaceSync", "cssRules", "rules"],
    StyleSheet: ["disabled=", "media"], MediaList: ["mediaText=", "appendMedium", "deleteMedium"],
    CSSRule: ["cssText="], CSSStyleRule: ["style", "styleMap", "selectorText="], CSSGroupingRule: ["insertRule", "deleteRule"],
    XMLHttpRequest: ["responseXML"],
    HTMLLinkElement: ["disabled="], HTMLStyleElement: ["disabled="],
    FontFaceSet: ["add", "delete", "clear"], FontFace: [
      "load", "family=", "style=", "weight=", "stretch=", "unicodeRange=", "variant=", "featureSettings=", "variationSettings=", "display=",
      "ascentOverride=", "descentOverride=", "lineGapOverride=", "sizeAdjust=",
    ],
    HTMLIFrameElement: ["contentWindow", "contentDocument"], HTMLFrameElement: ["contentWindow", "contentDocument"],
    CustomElementRegistry: ["define"], History: ["pushState", "replaceState"],
    Animation: ["commitStyles"],
    PerformanceObserver: ["observe"], Performance: ["getEntries", "getEntriesByType", "getEntriesByName"], // what was painted, and when
    Range: ["cloneContents", "extractContents", "surroundContents"], SVGSVGElement: ["setCurrentTime", "currentScale=", "currentTranslate"],
    SVGPolylineElement: ["points"], SVGPolygonElement: ["points"], SVGPathElement: ["setPathData"], SVGMarkerElement: ["setOrientToAngle"],
    SVGFEGaussianBlurElement: ["setStdDeviation"], SVGFEDropShadowElement: ["setStdDeviation"], Selection: ["addRange", "setBaseAndExtent", "selectAllChildren", "setPosition", "collapse", "extend", "modify"],
  };
  const refuse = (owner, name, what) => {
    const writes = name.endsWith("="), key = writes ? name.slice(0, -1) : name, found = of(owner, key);
    if (!found) return;
    const changed = { ...found };
    for (const kind of writes ? ["set"] : ["value", "get"]) {
      const run = found[kind];
      if (typeof run === "function") changed[kind] = { [key](...given) { tell(what); return apply(run, this, given); } }[key];
    }
    if (found.configurable) Object.defineProperty(owner, key, changed);
  };
  for (const [name, refused] of Object.entries(REFUSED)) {
    for (const one of window[name] ? refused : []) refuse(window[name].prototype, one, `${name}.${one}`);
  }
  for (const name of Object.getOwnPropertyNames(window)) { // numbers of a drawing, which a script may change in place
    if (/^SVG(?!AnimatedString)Animated/.test(name) && typeof window[name] === "function") refuse(window[name].prototype, "baseVal", `${name}.baseVal`);
  }
  for (const name of ["registerProperty", "paintWorklet", "animationWorklet", "layoutWorklet", "highlights"]) if (window.CSS) refuse(CSS, name, `CSS.${name}`);
  for (const name of ["scroll", "scrollTo", "scrollBy", "find", "createImageBitmap"]) refuse(window, name, name);
  window.navigation?.addEventListener("navigate", () => tell("a place in the page")); // also where it is left again
  addEventListener("hashchange", () => tell("a place in the page"), true);
  for (const owner of [Element, Document, DocumentFragment, ShadowRoot, Node, Range, HTMLTemplateElement]) { // shadow roots may come of it
    for (const one of [owner, owner.prototype]) {
      for (const name of Object.getOwnPropertyNames(one)) if (/Unsafe$|^parseHTML$/.test(name)) refuse(one, name, `${owner.name}.${name}`);
    }
  }
  // What is written in a document without a doctype is read otherwise, and stays so where it is brought here.
  for (const [owner, name] of [[DOMParser.prototype, "parseFromString"], [DOMImplementation.prototype, "createHTMLDocument"]]) {
    const run = owner[name];
    owner[name] = { [name](...given) {
      const made = apply(run, this, given);
      if (made.compatMode !== "CSS1Compat") tell("a document without a doctype");
      return made;
    } }[name];
  }
  for (const name of ["Worker", "FontFace", "CSSStyleSheet", "Animation", "VideoFrame", "ImageBitmapRenderingContext", "VideoDecoder", "ImageDecoder", "Highlight"]) {
    if (!window[name]) continue;
    const told = () => tell(`new ${name}`);
    window[name] = new Proxy(window[name], { construct: (made, given, as) => { told(); return Reflect.construct(made, given, as); } });
  }

  // ---- the document ----------------------------------------------------------------------------------------------
  const HTML = new Set((
    "html head body title meta link style script noscript div span p a b i u s em strong small big sub sup br wbr hr h1 h2 h3 h4 h5 h6 " +
    "main section article header footer nav aside address figure figcaption blockquote q cite code pre kbd samp var mark abbr time data del ins " +
    "ul ol li dl dt dd table caption thead tbody tfoot tr th td colgroup col ruby rt rp bdi bdo center font img canvas"
  ).split(" "));
  const SVG = new Set((
    "svg g defs symbol use path rect circle ellipse line polyline polygon text tspan textPath title desc metadata linearGradient radialGradient stop " +
    "clipPath mask pattern marker filter feBlend feColorMatrix feComponentTransfer feComposite feConvolveMatrix feDiffuseLighting feDisplacementMap " +
    "feDistantLight feDropShadow feFlood feFuncA feFuncB feFuncG feFuncR feGaussianBlur feMerge feMergeNode feMorphology feOffset fePointLight " +
    "feSpecularLighting feSpotLight feTile feTurbulence style"
  ).split(" "));
  const XHTML = "http://www.w3.org/1999/xhtml", DRAWINGS = "http://www.w3.org/2000/svg";
  const REFUSED_ATTRIBUTES = /^(contenteditable|popover|autofocus|shadowrootmode|is|srcset|loading)$/i;
  const looked = new WeakMap(); // sheet -> whether its rules see what a script is called, whether they scroll, and more
  const SEES = /\[[^\]]*\b(src|href)\b|attr\(|@import/i, SNAPS = /scroll-(snap-type|initial|start)|@import/i;
  const MOVES = /animation|transition|@import/i; // what a <use> shows moves by itself where nobody sees it
  const RECALLS = /contain-intrinsic|position-try|@import/i; // what is as large, or where, as it was when it was seen last
  const rulesIn = (sheet) => {
    if (!looked.has(sheet)) {
      let rules = "";
      try { for (const rule of rulesOf(sheet)) rules += rule.cssText; } catch { rules = "@import"; }
      looked.set(sheet, { see: SEES.test(rules), snap: SNAPS.test(rules), move: MOVES.test(rules), recall: RECALLS.test(rules) });
    }
    return looked.get(sheet);
  };
  addEventListener("scroll", () => tell("something is scrolled"), true); // as it is told in the next frame
  // What a page has from the window of a frame in it is not followed, also where that frame is gone.
  const FRAMES = "iframe, frame, object, embed, fencedframe", { matches, querySelector } = Element.prototype;
  // What is true of all that comes later, or of what was written meanwhile, also where it is gone: what addresses begin
  // with, what a page may load, which of several sheets is meant.
  const LASTING = "base, meta[http-equiv]:not([http-equiv=x-ua-compatible i], [http-equiv=content-type i]), style[title], link[title]";
  const LASTS = /^(http-equiv|title)$/, SHEETS = "style, link", NOTABLE = [FRAMES, LASTING, SHEETS].join();
  const has = (node, what) => node.nodeType === 1 && (apply(matches, node, [what]) || (node.firstElementChild && apply(querySelector, node, [what])));
  const count = (records) => {
    churn += records.length;
    for (const { type, target, attributeName, addedNodes, removedNodes } of records) {
      const isSheet = /^(style|link)$/.test(target.localName ?? target.parentNode?.localName);
      restyled ||= isSheet;
      if (type === "attributes" && (isSheet || target.localName === "meta") && LASTS.test(attributeName)) tell("what outlasts itself");
      if (type !== "childList") continue;
      for (const nodes of [addedNodes, removedNodes]) {
        for (const node of nodes) {
          if (!has(node, NOTABLE)) continue;
          if (has(node, FRAMES)) tell("a frame in the page");
          if (has(node, LASTING)) tell("what outlasts itself");
          restyled ||= Boolean(has(node, SHEETS));
        }
      }
    }
  };
  const churned = new MutationObserver(count);
  let churn = 0, nodes = 0, open = false, snaps = false, moves = false, uses = false;
  churned.observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
  const changes = () => { count(churned.takeRecords()); return churn; };
  const element = (node) => {
    const { namespaceURI, localName } = node;
    if (!(namespaceURI === XHTML ? HTML : namespaceURI === DRAWINGS ? SVG : none)?.has?.(localName)) tell(`<${localName.slice(0, 40)}>`);
    if (node.shadowRoot) tell("a shadow root");
    put(17); put(same(node)); put(namespaceURI === XHTML ? 1 : 0); text(localName);
    const named = localName === "script" && node.hasAttribute("src") ? "src" : localName === "link" && /^(modulepreload|preload)$/.test(node.rel) ? "href" : "";
    const hidden = named && !open && getComputedStyle(node).display === "none" ? named : "";
    for (const { name, namespaceURI: space, value: said } of attributesOf(node)) {
      if (name === hidden) continue; // it differs by a file's name, and what is in the file is what it does
      if (REFUSED_ATTRIBUTES.test(name)) tell(`an attribute ${name}`);
      if (said.includes("blob:")) tell("a picture that is no file of the bundle");
      if (name === "style") {
        if (said.includes("scroll-") && SNAPS.test(said)) tell("a style that scrolls");
        if (RECALLS.test(said)) tell("a style that recalls what was");
        moves ||= MOVES.test(said);
      }
      text(name); text(space ?? ""); text(said); // xlink:href is a name like others where a script sets it without its space
    }
    const style = written.get(node);
    put(18);
    if (style) for (let i = 0; i < 4; i++) put(style[i]);
    if (localName === "img") image(node);
    if (localName === "use") uses = true;
    if (localName === "canvas" && contexts.get(node) === "") tell("a canvas that is neither WebGL's nor flat");
    if (localName === "link") put(node.sheet ? 1 : 0);
    if (snaps && node.firstChild && (topOf(node) || leftOf(node))) tell("something is scrolled");
  };
  const walk = (node) => {
    if ((nodes += 1) > MAX_NODES) { tell("too many nodes"); return; }
    if (node.nodeType === 1) element(node);
    else if (node.nodeType === 3) {
      put(19); put(same(node)); text(node.data);
      if (node.data.includes("blob:") && node.parentNode.localName === "style") tell("a picture that is no file of the bundle");
    }
    else if (node.nodeType === 8) put(20);
    else if (node.nodeType !== 10 && node.nodeType !== 9) tell(`a node of type ${node.nodeType}`);
    for (let child = node.firstChild; child; child = child.nextSibling) walk(child);
    put(21);
  };
  const look = () => {
    if (why) return;
    nodes = 0;
    restyled = uses = false;
    const { activeElement } = document, selected = getSelection();
    if (getAnimations.call(document).length) tell("an animation");
    if (adoptedOf(document).length) tell("an adopted style sheet");
    if (activeElement && activeElement !== document.body) tell("something has the focus");
    if (selected && selected.rangeCount && !selected.isCollapsed) tell("something is selected");
    if (document.compatMode !== "CSS1Compat") tell("a page without a doctype");
    if (scrollX || scrollY || location.hash || document.designMode !== "off") tell("the page is scrolled, or edited");
    if (document.pictureInPictureElement || document.fullscreenElement) tell("a whole screen");
    const rules = [...document.styleSheets].map(rulesIn);
    open = rules.some(({ see }) => see);
    snaps = rules.some(({ snap }) => snap);
    moves = rules.some(({ move }) => move);
    if (rules.some(({ recall }) => recall)) tell("a style that recalls what was");
    text(document.compatMode); text(location.href); text(document.baseURI);
    for (const sheet of document.styleSheets) { put(sheet.disabled ? 1 : 0); text(mediaTextOf(mediaOf(sheet))); }
    faces();
    walk(document);
    if (uses && moves) tell("what may move in a <use>");
  };

  // ---- frames ----------------------------------------------------------------------------------------------------
  let begun = false, drawn = 0;
  const unchanged = () => { if (begun && (changes() || calls !== drawn)) tell("a change after the frame"); };
  const quietly = (run) => { try { run(); } catch (error) { on = true; tell(`an error: ${String(error).slice(0, 80)}`); } };
  return {
    arm() { on = true; },
    ours(run) { // what the clock does itself, and does in every page: no script of the page runs meanwhile
      isOurs = true;
      try { return run(); } finally { isOurs = false; }
    },
    begin(isSought) { // what a page did before is not shown, and what is there now is noted with it
      if (!isSought) tell("a page that is played");
      quietly(look);
    },
    next: () => quietly(unchanged),
    shown: () => quietly(() => {
      put(22);
      look();
      changes();
      churn = 0;
      drawn = calls;
      begun = true;
    }),
    said() {
      quietly(unchanged);
      return why ? { why } : { digest: digest() };
    },
  };
})();
