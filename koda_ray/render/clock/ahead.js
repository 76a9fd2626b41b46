// The next frame's scripts while a frame is painted: which pages may run them then, and from when.
//
// Once a frame is committed it is the browser's own, as are all frames of a page that nobody renders. That is in the task in
// which a callback of ours runs; what the browser has to tell the page of the frame comes in tasks behind that one, and our
// turn is behind them all, or when a page that never rests has had so long.
//
// Only pages of WebGL, whose scripts would wait for what draws them. Not those with something that is shown by a way of its
// own (frames in the page, film), or that had the browser do something since they began which it tells of some time later:
// that would be another frame's then.
if (window === parent && window.Scheduler) kodaAhead = (() => {
  const LATEST_MS = 20;
  const raf = requestAnimationFrame.bind(window), later = setTimeout.bind(window);
  const postTask = Scheduler.prototype.postTask.bind(window.scheduler);
  const frames = Object.getOwnPropertyDescriptor(window, "length").get.bind(window);
  let begun = false, lingers = false;
  const heed = (owner, name, ever) => {
    const found = owner && Object.getOwnPropertyDescriptor(owner, name);
    if (typeof found?.value !== "function" || !found.writable) return;
    const heard = () => { lingers ||= begun || ever; };
    owner[name] = /^[A-Z]/.test(name) ?
      new Proxy(found.value, { construct: (made, given, as) => { heard(); return Reflect.construct(made, given, as); } }) :
      { [name](...given) { heard(); return Reflect.apply(found.value, this, given); } }[name];
  };
  const LATER = {
    HTMLCanvasElement: ["toBlob"], OffscreenCanvas: ["convertToBlob"], HTMLImageElement: ["decode"], Blob: ["text", "arrayBuffer", "bytes", "stream"],
    FileReader: ["readAsArrayBuffer", "readAsBinaryString", "readAsDataURL", "readAsText"], IDBFactory: ["open", "deleteDatabase", "databases"],
    BaseAudioContext: ["decodeAudioData"], OfflineAudioContext: ["startRendering"],
    SubtleCrypto: ["digest", "encrypt", "decrypt", "sign", "verify", "generateKey", "deriveBits", "deriveKey", "importKey", "exportKey", "wrapKey", "unwrapKey"],
    CacheStorage: ["open", "match", "has", "keys", "delete"], StorageManager: ["getDirectory", "estimate", "persist", "persisted"],
  };
  for (const [name, methods] of Object.entries(LATER)) for (const method of window[name] ? methods : []) heed(window[name].prototype, method, false);
  for (const name of ["compile", "compileStreaming", "instantiate", "instantiateStreaming"]) heed(window.WebAssembly, name, false);
  for (const name of ["createImageBitmap", "CompressionStream", "DecompressionStream", "BroadcastChannel", "ImageDecoder", "VideoDecoder", "VideoEncoder"]) heed(window, name, false);
  heed(window.GPU?.prototype, "requestAdapter", true);
  heed(window.Worklet?.prototype, "addModule", true);

  let committed = null;
  return {
    begin() { begun = true; },
    may: (hasFilms) => !lingers && kodaCanvas.isDeep() && !frames() && !hasFilms,
    follow() {
      committed = new Promise((done) => raf(() => {
        postTask(done, { priority: "background" });
        later(done, LATEST_MS);
      }));
    },
    turn: () => committed,
  };
})();
