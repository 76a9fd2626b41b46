// What a page's frames are drawn from, as one running digest: equal digests are equal pictures.
//
// Noted are all calls that change a WebGL context, with all they are given, and the document after each frame: its nodes,
// which of them are the same as before, the attributes of those that came or changed, and each value that a script wrote
// into an inline style (what styles give back is rounded). What a picture may depend on beside that is not followed but
// told: then there is no digest.
//
// Nothing of it is trusted to a later look: between what is noted and what is painted nothing may change. Where pages are
// only looked at ("dry") whatever WebGL draws is noted and left undone, which no script can tell that reads nothing back.
if (window === parent) kodaWitness = (() => {
  const DRY = __DRY__;
  const MAX_NODES = 5000;
  const MAX_BYTES = 32 << 20, MAX_ALL_BYTES = 512 << 20; // of one call, and of a page: about half a second
  const { isView } = ArrayBuffer, { isArray } = Array;
  const { apply, ownKeys } = Reflect, of = Object.getOwnPropertyDescriptor;
  const { getAnimations } = Document.prototype, { getAttribute, getAttributeNames } = Element.prototype;
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

  let noted = 0;
  const isTooMuch = (length) => {
    noted += length;
    if (length > MAX_BYTES || noted > MAX_ALL_BYTES) tell("too much data");
    return Boolean(why);
  };
  const { put, text, term, bytes, chain, digest } = kodaDigest(isTooMuch);

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
    calls += 1;
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
  const clean = new WeakSet(), dirty = new Set(), fresh = new Set(); // nodes that were noted; that changed; that came, or went
  const rewritten = new Set(); // elements of whose style a script wrote a property that nothing else hangs on
  const HEEDED = /scroll|snap|contain|position|anima|transi|css|^all$/i;
  // A style says 1000.12px where 1000.1234px is drawn: so it is what was written that counts, all of it in its order, and
  // what the attribute said before, which is as it was written until a script writes into the style.
  const real = new WeakMap(), shown = new WeakMap(), written = new WeakMap(); // written: element -> its digest so far
  const note = (element, property, ...what) => {
    calls += 1;
    if (why) return;
    let before = written.get(element); // what it said before its first is looked at too
    (before && property && !HEEDED.test(property) ? rewritten : dirty).add(element);
    if (!before) {
      written.set(element, before = new Uint32Array(4));
      what.unshift(apply(getAttribute, element, ["style"]));
    }
    let line = "";
    for (const one of what) { const said = String(one); line += `${said.length}:${said},`; }
    if (line.includes("blob:")) tell("a picture that is no file of the bundle");
    chain(before, line);
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
        if (CHANGES.includes(name) && whose(this)) note(whose(this), String(given[0]), name, ...given);
        return apply(run, own(this), given);
      } }[name];
    } else if (found.get) {
      Object.defineProperty(CSSStyleDeclaration.prototype, name, {
        ...found,
        get() { return apply(found.get, own(this), []); },
        ...(found.set && { set(given) { if (whose(this)) note(whose(this), name, name, given); apply(found.set, own(this), [given]); } }),
      });
    }
  }
  const traps = {
    get: (style, name, proxy) => (name in CSSStyleDeclaration.prototype ? Reflect.get(CSSStyleDeclaration.prototype, name, proxy) : style[name]),
    set(style, name, given, proxy) {
      if (name in CSSStyleDeclaration.prototype) return Reflect.set(CSSStyleDeclaration.prototype, name, given, proxy);
      note(whose(proxy), String(name), String(name), given);
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
      set(given) { note(this, "", "style", given); apply(found.set, this, [given]); },
    });
  }

  // An attribute says a style as rounded: where that is written back, something else is drawn, and it says the same.
  const { Attr } = window, ownerOf = getter(Attr.prototype, "ownerElement");
  const attribute = (element, how, name, said) => {
    const isDrawn = contexts.has(element), isWritten = written.has(element);
    if (!isDrawn && !isWritten) return;
    const called = String(name?.name ?? name).toLowerCase();
    if (isDrawn && (called === "width" || called === "height")) tell("a canvas's size as an attribute");
    if (isWritten && called === "style") note(element, "", how, name?.value ?? said);
  };
  const WRITERS = [ // of whom, whether a space comes before the name, and what writes an attribute there
    [Element, false, "setAttribute", "setAttributeNode", "setAttributeNodeNS", "removeAttribute", "removeAttributeNode", "toggleAttribute"],
    [Element, true, "setAttributeNS", "removeAttributeNS"],
    [NamedNodeMap, false, "setNamedItem", "setNamedItemNS", "removeNamedItem"], [NamedNodeMap, true, "removeNamedItemNS"],
  ];
  const maps = new WeakMap(); // of attributes -> element
  let spaced = false; // whether an attribute may have a space, and a name that does not say so
  const space = (where, name) => { spaced ||= Boolean(where) && !String(name).includes(":"); };
  const { createAttributeNS } = Document.prototype;
  Document.prototype.createAttributeNS = function (...given) {
    space(...given);
    return apply(createAttributeNS, this, given);
  };
  for (const [{ prototype }, isSpaced, ...names] of WRITERS) {
    for (const name of names) {
      const run = prototype[name];
      prototype[name] = { [name](...given) {
        attribute(maps.get(this) ?? this, name, given[isSpaced ? 1 : 0], given[isSpaced ? 2 : 1]);
        if (isSpaced) space(...given);
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
  // Attributes of a drawing's elements that are written by what stands for them are no change of the document.
  let restated = false;
  const restate = (owner, name) => {
    const found = of(owner, name), kind = found.set ? "set" : "value", run = found[kind];
    Object.defineProperty(owner, name, { ...found, [kind]: { [name](...given) {
      calls += 1;
      restated = true;
      return apply(run, this, given);
    } }[name] });
  };
  restate(SVGAnimatedString.prototype, "baseVal");
  for (const name of ["clear", "initialize", "insertItemBefore", "replaceItem", "removeItem", "appendItem"]) restate(SVGStringList.prototype, name);
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
  const LOOKED_AT = /^(img|link|script|canvas)$/, BROUGHT = /^(img|link)$/;
  const movers = new WeakSet(); // elements whose own style moves
  let brought = []; // what comes without a change of the document
  const has = (node, what) => node.nodeType === 1 && (apply(matches, node, [what]) || (node.firstElementChild && apply(querySelector, node, [what])));
  const count = (records) => {
    churn += records.length;
    for (const { type, target, attributeName, attributeNamespace, addedNodes, removedNodes } of records) {
      const isSheet = /^(style|link)$/.test(target.localName ?? target.parentNode?.localName);
      restyled ||= isSheet;
      if (!why && type !== "childList" && !(attributeName === "style" && attributeNamespace === null && rewritten.has(target))) dirty.add(target);
      if (type === "attributes" && (isSheet || target.localName === "meta") && LASTS.test(attributeName)) tell("what outlasts itself");
      if (type !== "childList") continue;
      for (const nodes of [addedNodes, removedNodes]) {
        for (const node of nodes) {
          if (!why) fresh.add(node);
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
  const scrolls = (node) => { if (snaps && node.firstChild && (topOf(node) || leftOf(node))) tell("something is scrolled"); };
  const rewrite = (node) => {
    const style = written.get(node);
    put(18);
    if (style) for (let i = 0; i < 4; i++) put(style[i]);
  };
  const attributeOf = (node, name, space, said) => { // but not what differs by a file's name, where what is in it is what it does
    if (said === null) { tell("an attribute whose name is not found"); return; }
    if (REFUSED_ATTRIBUTES.test(name)) tell(`an attribute ${name}`);
    if (said.includes("blob:")) tell("a picture that is no file of the bundle");
    if (name === "style") {
      if (said.includes("scroll-") && SNAPS.test(said)) tell("a style that scrolls");
      if (RECALLS.test(said)) tell("a style that recalls what was");
      if (MOVES.test(said)) { moves = true; movers.add(node); }
    }
    term(name); term(space); text(said);
  };
  const element = (node, stands) => {
    const { namespaceURI, localName } = node;
    if (stands && !(namespaceURI === XHTML ? LOOKED_AT.test(localName) : restated)) {
      put(28); put(same(node));
      if (rewritten.has(node)) rewrite(node);
      moves ||= movers.has(node);
      uses ||= localName === "use";
      scrolls(node);
      return;
    }
    if (!(namespaceURI === XHTML ? HTML : namespaceURI === DRAWINGS ? SVG : none)?.has?.(localName)) tell(`<${localName.slice(0, 40)}>`);
    if (node.shadowRoot) tell("a shadow root");
    put(17); put(same(node)); put(namespaceURI === XHTML ? 1 : 0); term(localName);
    const named = localName === "script" && node.hasAttribute("src") ? "src" : localName === "link" && /^(modulepreload|preload)$/.test(node.rel) ? "href" : "";
    const hidden = named && !open && getComputedStyle(node).display === "none" ? named : "";
    const given = apply(getAttributeNames, node, []);
    movers.delete(node);
    // xlink:href is a name like others where a script sets it without its space; an object for each attribute takes longer
    if (spaced || given.some((name) => name.includes(":"))) {
      for (const { name, namespaceURI: space, value: said } of attributesOf(node)) {
        if (name !== hidden) attributeOf(node, name, space ?? "", said);
      }
    } else for (const name of given) if (name !== hidden) attributeOf(node, name, "", apply(getAttribute, node, [name]));
    rewrite(node);
    if (BROUGHT.test(localName)) { brought.push(node); come(node); }
    if (localName === "use") uses = true;
    if (localName === "canvas" && contexts.get(node) === "") tell("a canvas that is neither WebGL's nor flat");
    scrolls(node);
    clean.add(node);
  };
  const come = (node) => {
    if (node.localName === "img") image(node);
    else put(node.sheet ? 1 : 0);
  };
  // What a node says is noted where it is new or changed; that it is still there, and where, after each frame.
  const walk = (node, isNew) => {
    if ((nodes += 1) > MAX_NODES) { tell("too many nodes"); return; }
    isNew ||= fresh.has(node);
    const stands = !isNew && clean.has(node) && !dirty.has(node);
    if (node.nodeType === 1) element(node, stands);
    else if (node.nodeType === 3) {
      put(stands ? 29 : 19); put(same(node));
      if (!stands) text(node.data);
      clean.add(node);
      if (node.data.includes("blob:") && node.parentNode.localName === "style") tell("a picture that is no file of the bundle");
    }
    else if (node.nodeType === 8) put(20);
    else if (node.nodeType !== 10 && node.nodeType !== 9) tell(`a node of type ${node.nodeType}`);
    for (let child = node.firstChild; child; child = child.nextSibling) walk(child, isNew);
    put(21);
  };
  let begun = false, drawn = 0, sheetsThen = [];
  const forget = () => { for (const some of [dirty, fresh, rewritten]) some.clear(); };
  const look = () => {
    const isSame = !changes() && begun && calls === drawn;
    if (why) { forget(); return; }
    restyled = false;
    const { activeElement } = document, selected = getSelection();
    if (getAnimations.call(document).length) tell("an animation");
    if (adoptedOf(document).length) tell("an adopted style sheet");
    if (activeElement && activeElement !== document.body) tell("something has the focus");
    if (selected && selected.rangeCount && !selected.isCollapsed) tell("something is selected");
    if (document.compatMode !== "CSS1Compat") tell("a page without a doctype");
    if (scrollX || scrollY || location.hash || document.designMode !== "off") tell("the page is scrolled, or edited");
    if (document.pictureInPictureElement || document.fullscreenElement) tell("a whole screen");
    const sheetsNow = [...document.styleSheets], stands = isSame && sheetsNow.length === sheetsThen.length && sheetsNow.every((sheet, i) => sheet === sheetsThen[i]);
    const rules = sheetsNow.map(rulesIn);
    sheetsThen = sheetsNow;
    open = rules.some(({ see }) => see);
    snaps = rules.some(({ snap }) => snap);
    moves = rules.some(({ move }) => move);
    if (rules.some(({ recall }) => recall)) tell("a style that recalls what was");
    term(document.compatMode); term(location.href); term(document.baseURI);
    put(sheetsNow.length);
    for (const sheet of sheetsNow) { put(sheet.disabled ? 1 : 0); term(mediaTextOf(mediaOf(sheet))); }
    faces();
    if (stands && !snaps) { // nobody changed the document, nor what a script alone can
      put(27);
      for (const node of brought) come(node);
      return;
    }
    nodes = 0;
    uses = false;
    brought = [];
    walk(document, false);
    forget();
    restated = false;
    if (uses && moves) tell("what may move in a <use>");
  };

  // ---- frames ----------------------------------------------------------------------------------------------------
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
