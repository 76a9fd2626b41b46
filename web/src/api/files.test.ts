import { expect, test } from 'vitest';
import { fileAddress, firstOf, foldersAbove, pressed, rowsOf } from './files';

const FILES = ['index.html', 'package.json', 'src/App.tsx', 'src/koda/boot.ts', 'src/scenes/S1.tsx', 'src/scenes/S2.tsx'].map((path) => ({ path, sizeBytes: 1, sha256: path }));
const seen = (...open: string[]) => rowsOf(FILES, new Set(open));
const paths = (...open: string[]) => seen(...open).map(({ path }) => path);

test('a project is a tree of which what is open is seen, folders first', () => {
  expect(paths()).toEqual(['src', 'index.html', 'package.json']);
  expect(paths('src')).toEqual(['src', 'src/koda', 'src/scenes', 'src/App.tsx', 'index.html', 'package.json']);
  expect(paths('src', 'src/scenes').slice(2, 5)).toEqual(['src/scenes', 'src/scenes/S1.tsx', 'src/scenes/S2.tsx']);
  expect(paths('src/scenes')).toEqual(paths()); // what it lies in is closed
  expect(seen('src')[3]).toEqual({ path: 'src/App.tsx', name: 'App.tsx', level: 2, at: 3, of: 3, isFolder: false });
  expect(foldersAbove('src/scenes/S1.tsx')).toEqual(['src', 'src/scenes']);
  expect(foldersAbove('index.html')).toEqual([]);
});

test('keys lead through it as through any tree', () => {
  const open = new Set(['src']);
  const press = (now: string, key: string) => pressed(rowsOf(FILES, open), now, open, key);
  expect(press('src', 'ArrowDown')).toEqual({ to: 'src/koda' });
  expect(press('src', 'ArrowUp')).toEqual({});
  expect(press('src', 'End')).toEqual({ to: 'package.json' });
  expect(press('package.json', 'Home')).toEqual({ to: 'src' });
  expect(press('src', 'ArrowRight')).toEqual({ to: 'src/koda' });
  expect(press('src/koda', 'ArrowRight')).toEqual({ turns: 'src/koda' });
  expect(press('src/App.tsx', 'ArrowRight')).toEqual({});
  expect(press('src/App.tsx', 'ArrowLeft')).toEqual({ to: 'src' });
  expect(press('src', 'ArrowLeft')).toEqual({ turns: 'src' });
  expect(press('src', 'p')).toEqual({ to: 'package.json' });
  expect(press('src/scenes', 's')).toEqual({ to: 'src' });
  expect(press('src', 'Tab')).toBeUndefined();
  expect(press('src', ' ')).toBeUndefined();
  expect(pressed([], 'src', open, 'End')).toBeUndefined();
});

test('what the agents wrote is read first, and else where the page begins', () => {
  expect(firstOf(FILES, ['package.json', 'src/scenes/S9.tsx', 'src/scenes/S2.tsx'])).toBe('src/scenes/S2.tsx');
  expect(firstOf(FILES, [])).toBe('src/App.tsx');
  expect(firstOf(FILES.slice(4), [])).toBe('src/scenes/S1.tsx');
  expect(firstOf([], ['src/App.tsx'])).toBeUndefined();
});

test('a file has an address of its own, at any checkpoint', () => {
  expect(fileAddress('ses_1', 'src/a b/#1.ts')).toBe('/v1/sessions/ses_1/files/src/a%20b/%231.ts');
  expect(fileAddress('ses_1', 'index.html', 'ck_1')).toBe('/v1/sessions/ses_1/files/index.html?checkpoint=ck_1');
});
