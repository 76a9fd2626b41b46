// Where this runs: in the page's own world, or in one beside it that no script of the page sees ("alone").
//
// In a frame whose scripts are off (`sandbox` without `allow-scripts`) nothing that happens is told to the page's own
// world, but styles, SVG and film move there all the same: they are moved from the other one.
const kodaAlone = __ALONE__;
const kodaScripts = (() => {
  const probe = document.createElementNS("http://www.w3.org/1999/xhtml", "div");
  if (!(document instanceof HTMLDocument)) {
    probe.setAttribute("onclick", "0");
    return Boolean(probe.onclick); // there is none where scripts are off
  }
  try {
    probe.innerHTML = "<noscript><i></i></noscript>";
  } catch {
    return true; // it insists on trusted types
  }
  return !probe.querySelector("i"); // read as text where scripts are on
})();
if (kodaScripts === kodaAlone) return;
