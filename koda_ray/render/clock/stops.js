// CSS animations that stand because a style says so (`animation-play-state`), and go on when it does not any more.
//
// Every animation is paused by us, and a browser heeds no style in that once a script has paused one. So the style is
// asked, as it is at that moment, by whatever rule; what counts is that it changes, as in a browser.
const kodaStops = () => {
  const { getComputedStyle, CSSAnimation } = window, { getPropertyValue } = CSSStyleDeclaration.prototype;
  const { escape } = CSS;
  const freed = new WeakSet(); // those that the page has stopped, or set going, itself: no style does that any more
  const ALWAYS = ["pause", "play"], STANDING = ["reverse", "finish"]; // which calls do that; where it stood
  const read = (style, name) => getPropertyValue.call(style, name);
  const isStopped = (animation, style) => {
    const states = read(style, "animation-play-state");
    if (!states.includes("paused")) return false;
    if (!states.includes("running")) return true;
    const each = states.split(", "), at = read(style, "animation-name").split(", ").lastIndexOf(escape(animation.animationName));
    return at >= 0 && each[at % each.length] === "paused";
  };
  return {
    isStopped: (animation, style) => !freed.has(animation) && isStopped(animation, style),
    styleOf: (animation) => { // what decides of it, and stays what it is where the element's style changes
      const target = animation instanceof CSSAnimation && !freed.has(animation) && animation.effect?.target;
      return target ? getComputedStyle(target, animation.effect.pseudoElement) : null;
    },
    called: (animation, name, stood) => { if (ALWAYS.includes(name) || (stood && STANDING.includes(name))) freed.add(animation); },
    free: (animation) => freed.add(animation),
  };
};
