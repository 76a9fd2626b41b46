// Sets text as large as its space allows, with balanced lines, in any script.
//
// Widths come from the browser's own metrics of the very font, so what is measured is what is drawn. Japanese and Chinese
// break between words that the browser's dictionary finds, never before a closing mark.

export interface Face {
  /** A CSS font stack. */
  readonly family: string;
  readonly weight: number;
  /** Letter spacing in em. */
  readonly tracking: number;
  readonly italic?: boolean;
}

export interface Space {
  readonly width: number;
  readonly height: number;
  readonly maxSize: number;
  /** In em; 1.1 by default. */
  readonly lineHeight?: number;
  readonly maxLines?: number;
}

export interface Setting {
  readonly size: number;
  readonly lines: readonly string[];
}

const BROAD = /[\u3040-\u30ff\u3400-\u9fff\uff00-\uffef]/;
const NOT_AT_START = /^[、。，．！？!?,.:;：；）)\]」』】〉》”’ー…々ぁぃぅぇぉっゃゅょァィゥェォッャュョ]/;
const PROBE = 100;

const pen = document.createElement('canvas').getContext('2d');
const widths = new Map<string, number>();

/** The width of one line, in pixels. */
export function textWidth(text: string, size: number, face: Face): number {
  const font = `${face.italic ? 'italic ' : ''}${face.weight} ${PROBE}px ${face.family}`;
  const key = `${font}|${text}`;
  let width = widths.get(key);
  if (width === undefined) {
    if (!pen) return text.length * size * 0.6;
    pen.font = font;
    width = pen.measureText(text).width / PROBE;
    // before the font has come, this is another font's width: measure again next time
    if (document.fonts.status === 'loaded' && document.fonts.check(font, text)) widths.set(key, width);
  }
  return (width + face.tracking * [...text].length) * size;
}

interface Token {
  readonly text: string;
  readonly gap: string;
}

/** Text in pieces that must not be broken. */
function tokens(text: string): Token[] {
  const pieces: Token[] = [];
  for (const word of text.trim().split(/\s+/)) {
    if (!BROAD.test(word)) {
      pieces.push({ text: word, gap: ' ' });
      continue;
    }
    const parts = [...new Intl.Segmenter('ja', { granularity: 'word' }).segment(word)].map((s) => s.segment);
    parts.forEach((part, i) => {
      const last = pieces[pieces.length - 1];
      const joins = i > 0 && last && (NOT_AT_START.test(part) || /[（(「『【〈《“‘]$/.test(last.text) || /^[がをにへはもでとのや]$/.test(part));
      if (joins) pieces[pieces.length - 1] = { text: last.text + part, gap: last.gap };
      else pieces.push({ text: part, gap: i === 0 ? ' ' : '' });
    });
  }
  return pieces;
}

/** Fill lines of at most `limit` em. */
function fill(pieces: readonly Token[], limit: number, face: Face): string[] {
  const lines: string[] = [];
  for (const { text, gap } of pieces) {
    const last = lines[lines.length - 1];
    const longer = last === undefined ? text : last + gap + text;
    if (last !== undefined && textWidth(longer, 1, face) <= limit) lines[lines.length - 1] = longer;
    else lines.push(text);
  }
  return lines;
}

/** Break into at most `count` lines whose longest is as short as can be. */
function balance(pieces: readonly Token[], count: number, face: Face): string[] {
  const all = pieces.map(({ text, gap }, i) => (i === 0 ? text : gap + text)).join('');
  let low = Math.max(...pieces.map(({ text }) => textWidth(text, 1, face)));
  let high = textWidth(all, 1, face);
  for (let step = 0; step < 14; step++) {
    const middle = (low + high) / 2;
    if (fill(pieces, middle, face).length <= count) high = middle;
    else low = middle;
  }
  return fill(pieces, high + 1e-6, face);
}

/** The largest setting of `text` in a space: size in pixels and the lines. */
export function fitText(text: string, face: Face, space: Space): Setting {
  const { width, height, maxSize, lineHeight = 1.1, maxLines = 4 } = space;
  const pieces = tokens(text);
  let best: Setting = { size: 0, lines: [text] };
  for (let count = 1; count <= Math.min(maxLines, pieces.length); count++) {
    const lines = balance(pieces, count, face);
    const longest = Math.max(...lines.map((line) => textWidth(line, 1, face)), 0.01);
    const size = Math.min(maxSize, width / longest, height / (lines.length * lineHeight));
    // a further line must be worth it
    if (size > best.size * 1.04) best = { size, lines };
  }
  return best;
}

/** Letters as a person sees them: one emoji is one. */
export function letters(text: string): string[] {
  return [...new Intl.Segmenter(undefined, { granularity: 'grapheme' }).segment(text)].map((s) => s.segment);
}
