// Scripts and sheets that a page asks for while it is shown. The browser says that a file is there before it has run: a long
// one is compiled in between, beside the page.
const kodaLate = (() => {
  const LATEST_MS = 2000, LOOK_MS = 20; // of real time: of one that is never run, or has removed itself, nobody hears
  const again = setInterval.bind(window), never = clearInterval.bind(window), now = performance.now.bind(performance);
  const find = document.querySelectorAll.bind(document), WHICH = "script[src], link[rel~=stylesheet][href]";
  const over = new WeakMap(); // an element -> the address that it has done with: a link may be given another
  const address = (element) => element.getAttribute(element.localName === "link" ? "href" : "src");
  const wanted = () => [...find(WHICH)].filter((element) => over.get(element) !== address(element));
  const leave = () => { for (const element of wanted()) over.set(element, address(element)); };
  for (const name of ["load", "error"]) {
    document.addEventListener(name, ({ target }) => { if (target.matches?.(WHICH)) over.set(target, address(target)); }, true);
  }
  return {
    begin: leave, // the page is ready
    async settle() {
      if (!wanted().length) return;
      const until = now() + LATEST_MS;
      await new Promise((done) => {
        const timer = again(() => {
          if (wanted().length && now() < until) return;
          never(timer);
          done();
        }, LOOK_MS);
      });
      leave();
    },
  };
})();
