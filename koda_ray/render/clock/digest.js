// A running digest of words, texts and bytes: MurmurHash3, 128 bits. What is put into it says itself where it ends.
const kodaDigest = (isTooMuch) => {
  const SIZE = 16384; // words that are mixed at once
  const { imul } = Math, { apply } = Reflect;
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

  // As UTF-8, which the browser writes at once: a loop over letters is not compiled yet in most frames of most pages.
  const encoder = new TextEncoder(), { encodeInto } = TextEncoder.prototype, { isWellFormed } = String.prototype;
  const room = new Uint8Array(words.buffer), PIECE = 4096;
  const piece = (value) => {
    if (3 * value.length > 4 * (SIZE - at)) { words.fill(0, at); full(); }
    const start = 4 * at, { written: end } = apply(encodeInto, encoder, [value, room.subarray(start)]);
    at += (end + 3) >> 2;
    room.fill(0, start + end, 4 * at);
    if (at === SIZE) full();
  };
  const text = (value) => {
    const { length } = value;
    if (isTooMuch(4 * length)) return;
    put(3); put(length);
    if (length <= PIECE && apply(isWellFormed, value, [])) { put(24); piece(value); return; }
    for (let i = 0; i < length; i += PIECE) {
      const part = value.slice(i, i + PIECE);
      if (apply(isWellFormed, part, [])) { put(24); piece(part); continue; }
      put(25);
      for (let j = 0; j < part.length; j++) put(part.charCodeAt(j));
    }
  };
  const MAX_TERMS = 10_000, terms = new Map(); // what is said again and again -> its number
  const term = (value) => {
    const number = terms.get(value);
    put(26); put(number ?? MAX_TERMS);
    if (number !== undefined) return;
    if (terms.size < MAX_TERMS) terms.set(value, terms.size);
    text(value);
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
  const chain = (before, line) => { // what was, and a text, as what is: 128 bits for another digest
    const { length } = line, given = new Uint32Array((length + 7) & ~3), isWhole = apply(isWellFormed, line, []);
    given[0] = 2 * length + isWhole;
    let end = 4 * length;
    if (isWhole) ({ written: end } = apply(encodeInto, encoder, [line, new Uint8Array(given.buffer, 4)]));
    else for (let i = 0; i < length; i++) given[i + 1] = line.charCodeAt(i);
    mix(before, given, ((end + 19) >> 4) << 2);
  };
  return { put, text, term, bytes, chain, digest };
};
