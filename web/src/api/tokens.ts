/**
 * Source text in pieces, as it is coloured: what is a comment, a text, a word of the language or a number. No parser:
 * whatever it takes for something else is told in another colour, and reads the same.
 */

export type Kind = 'comment' | 'text' | 'word' | 'number';
/** A piece with its kind; what has none is a text of its own. */
export type Piece = string | { kind: Kind; text: string };

const WORDS =
  'abstract|as|async|await|break|case|catch|class|const|continue|declare|default|delete|do|else|enum|export|extends|false|finally|for|from|function|get|if|implements|import|in|instanceof|interface|keyof|let|new|null|of|private|protected|public|readonly|return|satisfies|set|static|super|switch|this|throw|true|try|type|typeof|undefined|var|void|while|yield';
const QUOTED = `"(?:\\\\.|[^"\\\\\\n])*"|'(?:\\\\.|[^'\\\\\\n])*'`;
const BLOCK = '/\\*[^]*?(?:\\*/|$)';

/** Of each language what is matched: a comment, a text, a word, a number. */
const SCRIPT = rules(`//[^\\n]*|${BLOCK}`, `${QUOTED}|\`(?:\\\\.|[^\`\\\\])*\``, `\\b(?:${WORDS})\\b(?!\\s*:)`, '\\b(?:0x[\\da-fA-F]+|\\d[\\d_]*(?:\\.\\d+)?(?:e[+-]?\\d+)?)\\b');
const STYLE = rules(BLOCK, QUOTED, '@[\\w-]+|--[\\w-]+', '#[\\da-fA-F]{3,8}\\b|-?\\b\\d+(?:\\.\\d+)?(?:%|[a-z]+)?');
const MARKUP = rules('<!--[^]*?(?:-->|$)', QUOTED, '</?[a-zA-Z][\\w-]*|/?>|<!\\w+', '&[\\w#]+;');
const DATA = rules('//[^\\n]*', '"(?:\\\\.|[^"\\\\\\n])*"', '\\b(?:true|false|null)\\b', '-?\\b\\d+(?:\\.\\d+)?(?:e[+-]?\\d+)?\\b');

const LANGUAGES: [RegExp, RegExp][] = [
  [/\.[cm]?[jt]sx?$/, SCRIPT],
  [/\.css$/, STYLE],
  [/\.(?:html?|svg|xml)$/, MARKUP],
  [/\.json$/, DATA],
];
const KINDS: readonly Kind[] = ['comment', 'text', 'word', 'number'];

/** A file's text in pieces, in order; together they are the text. What is of no language that is known is one piece. */
export function piecesOf(text: string, path: string): Piece[] {
  const rule = LANGUAGES.find(([name]) => name.test(path))?.[1];
  if (!rule) return text ? [text] : [];
  const pieces: Piece[] = [];
  let from = 0;
  for (const found of text.matchAll(rule)) {
    if (found.index > from) pieces.push(text.slice(from, found.index));
    const kind = KINDS.find((_, at) => found[at + 1] !== undefined);
    if (kind) pieces.push({ kind, text: found[0] });
    from = found.index + found[0].length;
  }
  if (from < text.length) pieces.push(text.slice(from));
  return pieces;
}

function rules(...kinds: readonly string[]): RegExp {
  return new RegExp(kinds.map((each) => `(${each})`).join('|'), 'g');
}
