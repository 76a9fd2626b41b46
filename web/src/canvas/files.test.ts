import { beforeEach, expect, test } from 'vitest';
import type { Schemas } from '../api/client';
import { Uploads } from '../api/uploads';
import { Board } from './board';
import { Canvases } from './canvases';
import { Files } from './files';

class Kept {
  readonly entries = new Map<string, string>();
  get length() {
    return this.entries.size;
  }
  key = (at: number) => [...this.entries.keys()][at] ?? null;
  getItem = (key: string) => this.entries.get(key) ?? null;
  setItem = (key: string, value: string) => void this.entries.set(key, value);
  removeItem = (key: string) => void this.entries.delete(key);
}

let canvases: Canvases;
let board: Board;
let uploads: Uploads;
let files: Files;
let answers: ((asset: Schemas['AssetView']) => void)[];
const logo = new File(['x'], 'logo.png');
const asset = { id: 'ast_1', name: 'logo.png', mediaType: 'image/png' } as Schemas['AssetView'];
const settled = () => new Promise((done) => setTimeout(done));

beforeEach(() => {
  canvases = new Canvases('ann', new Kept());
  board = new Board(canvases.create(), canvases);
  answers = [];
  uploads = new Uploads(
    () => new Promise((done) => answers.push(done)),
    () => '/',
  );
  files = new Files(board, uploads);
});

test('what is stored is in its node and kept at once, whether or not the canvas is shown', async () => {
  const id = board.add({ plugin: 'asset' }, { x: 0, y: 0 }, 300);
  files.put(id, logo);
  expect(files.of(id)).toMatchObject({ name: 'logo.png', state: 'goes' });
  answers[0]?.(asset);
  await settled();
  expect(files.of(id)).toBeUndefined();
  expect(canvases.read(board.id)?.layout.nodes).toMatchObject([{ data: { asset: { id: 'ast_1' } } }]);
});

test('another file takes the place of one that is on its way', () => {
  const id = board.add({ plugin: 'asset' }, { x: 0, y: 0 }, 300);
  files.put(id, logo);
  files.put(id, new File(['x'], 'other.png'));
  expect(uploads.list.map(({ name }) => name)).toEqual(['other.png']);
});

test('what goes into a node that is removed rests, and goes on once that is undone', async () => {
  const id = board.add({ plugin: 'asset' }, { x: 0, y: 0 }, 300);
  files.put(id, logo);
  board.remove([id]);
  expect(uploads.areUnderWay).toBe(false);
  board.undo();
  expect(files.of(id)?.state).toBe('goes');
  answers[1]?.(asset);
  await settled();
  expect(board.seen.nodes).toMatchObject([{ data: { asset: { id: 'ast_1' } } }]);
});

test('what goes into a node that cannot come back is let go', () => {
  const id = board.add({ plugin: 'asset' }, { x: 0, y: 0 }, 300);
  files.put(id, logo);
  board.keep();
  board.remove([id]);
  expect(files.of(id)?.state).toBe('rests');
  const { layout } = canvases.read(board.id) ?? {};
  if (layout) canvases.write(board.id, { ...layout, nodes: [], edges: [], changedAt: Date.now() + 60_000 }); // in another window
  board.reread();
  expect([board.seen.canUndo, uploads.list]).toEqual([false, []]);
});

test('of a canvas that is deleted nothing is under way, and of another one it is', () => {
  const other = new Board(canvases.create(), canvases);
  const others = new Files(other, uploads);
  const [one, two] = [board.add({ plugin: 'asset' }, { x: 0, y: 0 }, 300), other.add({ plugin: 'asset' }, { x: 0, y: 0 }, 300)];
  files.put(one, logo);
  others.put(two, logo);
  files.close();
  expect([files.of(one), others.of(two)?.state]).toEqual([undefined, 'goes']);
});
