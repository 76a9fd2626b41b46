import { expect, test } from 'vitest';
import { piecesOf } from './tokens';

const kinds = (text: string, path: string) => piecesOf(text, path).flatMap((each) => (typeof each === 'string' ? [] : [`${each.kind} ${each.text}`]));

test('source is told apart as far as it is coloured', () => {
  const source = ["// where it begins", "import { x } from './x';", 'const size = 1.5; /* two', 'lines */', 'return `a ${size} // no comment`;'].join('\n');
  expect(kinds(source, 'src/S1.tsx')).toEqual([
    'comment // where it begins',
    'word import',
    'word from',
    "text './x'",
    'word const',
    'number 1.5',
    'comment /* two\nlines */',
    'word return',
    'text `a ${size} // no comment`',
  ]);
  expect(kinds('@media print { a { color: #fff; width: 1.5rem } }', 'page.css')).toEqual(['word @media', 'number #fff', 'number 1.5rem']);
  expect(kinds('<p class="a">it\'s &amp; <!-- no --></p>', 'index.html')).toEqual(['word <p', 'text "a"', 'word >', 'number &amp;', 'comment <!-- no -->', 'word </p', 'word >']);
  expect(kinds('{"on": true, "at": -2e3}', 'a.json')).toEqual(['text "on"', 'word true', 'text "at"', 'number -2e3']);
});

test('the pieces are the whole text, whatever it is', () => {
  for (const text of ['', 'const', "it's\n'", '`never ends', '/* never ends', '\\"\\', 'a'.repeat(5000)])
    for (const path of ['a.ts', 'a.css', 'a.html', 'a.json', 'README.md', 'LICENSE'])
      expect(piecesOf(text, path).map((each) => (typeof each === 'string' ? each : each.text)).join('')).toBe(text);
  expect(piecesOf('const', 'LICENSE')).toEqual(['const']);
});
