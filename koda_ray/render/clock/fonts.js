// Fonts come when they come: usually after the page was laid out with others.
//
// Chromium lays out again then, but of an element that an animation moves it keeps what it had computed, lengths in `ch`
// and `ex` among that, for as long as the animation is all that changes it. So such a length was the old font's or the
// new one's, by when the font came. Here everything is computed anew, once, while nothing of it is moving.
const kodaFonts = (() => {
  let came = false, sheet;
  const watch = () => { // the document that is there now
    sheet = new CSSStyleSheet();
    sheet.insertRule("* { --koda-fonts: 0 }");
    if (document.fonts) document.fonts.addEventListener("loadingdone", () => { came = true; });
  };
  watch();
  for (const name of window.FontFaceSet ? ["add", "delete", "clear"] : []) { // one that is loaded before loads no more
    const native = FontFaceSet.prototype[name];
    FontFaceSet.prototype[name] = { [name](...given) { came = true; return native.apply(this, given); } }[name];
  }
  const layOut = () => document.documentElement.getBoundingClientRect();
  // Whether there are other fonts than there were; the page is laid out with them now.
  const settle = () => {
    if (!came || !document.documentElement) return false;
    came = false;
    const { adoptedStyleSheets } = document;
    layOut();
    adoptedStyleSheets.push(sheet);
    layOut();
    adoptedStyleSheets.pop();
    layOut();
    return true;
  };
  return { settle, watch };
})();
