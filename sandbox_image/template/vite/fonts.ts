// Emits the faces of the large font families that a project's text needs, and no others.
//
// Noto Sans JP, SC and KR and the colour emoji come as some 120 files each, cut by unicode-range. A build reads the
// project's own text (sources, Theatre state, text files under public/) and declares only the faces whose range holds a
// character of it: Japanese or emoji in a scene works without an import, and a Latin-only bundle carries none of them.
// The dev server declares every face; a browser downloads by range anyway.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import type { Plugin } from 'vite';

const MODULE = 'virtual:koda-fonts.css';
const TEXT_FILES = /\.(tsx?|jsx?|json|css|html|txt|csv|md|svg|srt|vtt)$/;
const RUNTIME = /^src[\\/](koda|utils)[\\/]/;

const KANA = /[\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f]/u;
const HANGUL = /[\u1100-\u11ff\u3130-\u318f\uac00-\ud7af]/u;
// below U+3000 the base families draw, but for symbols that only the emoji or CJK families have
const FIRST_LARGE = 0x2190;
const JAPANESE = '@fontsource-variable/noto-sans-jp/index.css';
const KOREAN = '@fontsource-variable/noto-sans-kr/index.css';
const CHINESE = '@fontsource-variable/noto-sans-sc/index.css';
// of these the woff files: the cut woff2 files hold pictures for Safari only, which Chromium leaves blank
const EMOJI = '@fontsource/noto-color-emoji/index.css';

interface Face {
  readonly css: string;
  readonly ranges: readonly (readonly [number, number])[];
}

/** Keep the file of one format, as each that is named would be emitted. */
function oneSource(block: string, format: 'woff' | 'woff2'): string {
  const sources = block.match(/url\([^)]*\)\s*format\('[^']*'\)/g) ?? [];
  const kept = sources.find((source) => source.includes(`.${format})`)) ?? sources[0] ?? '';
  return block.replace(/src:[^;]*;/, `src: ${kept};`);
}

function readFaces(modules: string, sheet: string): Face[] {
  const file = path.join(modules, sheet);
  const css = readFileSync(file, 'utf8');
  return [...css.matchAll(/@font-face\s*\{[^}]*\}/g)].map(([block]) => ({
    css: oneSource(block, sheet === EMOJI ? 'woff' : 'woff2').replace(/url\(\.\//g, `url(${path.posix.dirname(sheet)}/`),
    ranges: [...(/unicode-range:([^;}]*)/.exec(block)?.[1] ?? '').matchAll(/U\+([0-9a-f]+)(?:-([0-9a-f]+))?/gi)].map(
      ([, from, to]) => [parseInt(from ?? '0', 16), parseInt(to ?? from ?? '0', 16)] as const,
    ),
  }));
}

function holds(face: Face, character: number): boolean {
  return face.ranges.some(([from, to]) => character >= from && character <= to);
}

function* textFiles(folder: string): Generator<string> {
  if (!existsSync(folder)) return;
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const file = path.join(folder, entry.name);
    if (entry.isDirectory()) yield* textFiles(file);
    else if (entry.isFile() && TEXT_FILES.test(entry.name)) yield file;
  }
}

/** Undo \u3042, \u{1f600} and &#x3042; so that escaped text counts as text. */
function unescaped(text: string): string {
  return text
    .replace(/\\u\{([0-9a-f]{1,6})\}/gi, (all, hex: string) => fromCode(parseInt(hex, 16)) ?? all)
    .replace(/\\u([0-9a-f]{4})/gi, (_all, hex: string) => String.fromCharCode(parseInt(hex, 16)))
    .replace(/&#(?:x([0-9a-f]{1,6})|(\d{1,7}));/gi, (all, hex?: string, decimal?: string) =>
      fromCode(hex ? parseInt(hex, 16) : Number(decimal)) ?? all,
    );
}

function fromCode(code: number): string | undefined {
  return code <= 0x10ffff ? String.fromCodePoint(code) : undefined;
}

/** The @font-face rules that this text needs, in the order in which the families fall back. */
export function facesFor(text: string, modules: string): string {
  const wanted = new Set([...text].map((c) => c.codePointAt(0) ?? 0).filter((code) => code >= FIRST_LARGE));
  if (wanted.size === 0) return '';
  const sheets = [
    ...(KANA.test(text) ? [JAPANESE] : []),
    ...(HANGUL.test(text) ? [KOREAN] : []),
    CHINESE,
    JAPANESE,
    KOREAN,
  ];
  const chosen: string[] = [];
  const take = (sheet: string, characters: ReadonlySet<number>): Set<number> => {
    const covered = new Set<number>();
    for (const face of readFaces(modules, sheet)) {
      const own = [...characters].filter((character) => holds(face, character));
      if (own.length > 0) chosen.push(face.css);
      for (const character of own) covered.add(character);
    }
    return covered;
  };
  const emoji = take(EMOJI, wanted);
  let left = new Set([...wanted].filter((character) => !emoji.has(character)));
  for (const sheet of new Set(sheets)) {
    if (left.size === 0) break;
    const covered = take(sheet, left);
    left = new Set([...left].filter((character) => !covered.has(character)));
  }
  return chosen.join('\n');
}

/** The plugin behind `import 'virtual:koda-fonts.css'`. `root` is the project's absolute path. */
export function bundledFonts(root: string): Plugin {
  const modules = path.join(root, 'node_modules');
  let serving = false;
  return {
    name: 'koda:fonts',
    configResolved(config) {
      serving = config.command === 'serve';
    },
    resolveId(source) {
      return source === MODULE ? path.join(root, 'src', 'koda-fonts.generated.css') : null;
    },
    load(id) {
      if (!id.endsWith('koda-fonts.generated.css')) return null;
      if (serving)
        return [EMOJI, JAPANESE, CHINESE, KOREAN].flatMap((s) => readFaces(modules, s).map((face) => face.css)).join('\n');
      let text = '';
      for (const folder of ['src', 'public'])
        for (const file of textFiles(path.join(root, folder)))
          if (!RUNTIME.test(path.relative(root, file))) text += unescaped(readFileSync(file, 'utf8'));
      return facesFor(text, modules);
    },
  };
}
