// Scripts and sheets that a page asks for while it is shown. The browser says that a file is there before it has run: a long
// one is compiled in between, beside the page.
const kodaLate = (() => {
  const LATEST_MS = 2000; // of real time: of one that is never run nobody hears
  const later = setTimeout.bind(window), never = clearTimeout.bind(window), find = document.querySelectorAll.bind(document);
  const over = new WeakSet();
  const wanted = () => [...find("script[src], link[rel~=stylesheet][href]")].filter((element) => !over.has(element));
  const leave = () => { for (const element of wanted()) over.add(element); };
  let hear = () => {};
  for (const name of ["load", "error"]) document.addEventListener(name, ({ target }) => { over.add(target); hear(); }, true);
  return {
    begin: leave, // the page is ready
    async settle() {
      if (!wanted().length) return;
      await new Promise((done) => {
        const timer = later(done, LATEST_MS);
        hear = () => { if (!wanted().length) { never(timer); done(); } };
      });
      hear = () => {};
      leave();
    },
  };
})();
