import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { Board } from './board';
import { Canvases } from './canvases';
import { edgeOf } from './layout';

class Kept {
  readonly entries = new Map<string, string>();
  isFull = false;
  get length() {
    return this.entries.size;
  }
  key = (at: number) => [...this.entries.keys()][at] ?? null;
  getItem = (key: string) => this.entries.get(key) ?? null;
  setItem = (key: string, value: string) => {
    if (this.isFull) throw new Error('there is no room');
    this.entries.set(key, value);
  };
  removeItem = (key: string) => void this.entries.delete(key);
}

let kept: Kept;
let canvases: Canvases;
let board: Board;

beforeEach(() => {
  vi.useFakeTimers();
  kept = new Kept();
  canvases = new Canvases('ann', kept);
  board = new Board(canvases.create(), canvases);
});
afterEach(() => void vi.useRealTimers());

const again = () => new Board(board.id, canvases).seen;
const film = { plugin: 'animation-generator' };

test('what is changed is kept a moment later, and what is only looked at is no change', () => {
  const id = board.add(film, { x: 1, y: 2 }, 420);
  vi.runAllTimers();
  expect(again().nodes).toMatchObject([{ id, position: { x: 1, y: 2 }, width: 420 }]);
  const before = canvases.list()[0]?.changedAt;
  board.look({ x: 5, y: 6, zoom: 0.5 });
  vi.runAllTimers();
  expect([again().view, canvases.list()[0]?.changedAt]).toEqual([{ x: 5, y: 6, zoom: 0.5 }, before]);
});

test('a node that was removed comes back with its edges and with what it held', () => {
  const [words, other] = [board.add({ plugin: 'prompt' }, { x: 0, y: 0 }, 300), board.add(film, { x: 400, y: 0 }, 420)];
  board.change(words, { text: 'A ball' });
  board.join([edgeOf({ source: words, sourceHandle: 'text', target: other, targetHandle: 'prompt' })]);
  board.remove([words]);
  expect([board.seen.nodes.length, board.seen.edges.length]).toEqual([1, 0]);
  expect(board.undo()).toBe(true);
  expect(board.seen.nodes.find(({ id }) => id === words)?.data).toEqual({ plugin: 'prompt', text: 'A ball' });
  expect(board.seen.edges).toHaveLength(1);
  board.redo();
  expect([board.seen.nodes.length, board.seen.edges.length, board.seen.canRedo]).toEqual([1, 0, false]);
});

test('undoing a move takes no session from a node', () => {
  const id = board.add(film, { x: 0, y: 0 }, 420);
  board.mark();
  board.put({ nodes: board.seen.nodes.map((each) => ({ ...each, position: { x: 50, y: 0 } })) });
  board.change(id, { sessionId: 'ses_1' });
  board.undo();
  expect(board.seen.nodes).toMatchObject([{ position: { x: 0, y: 0 }, data: { sessionId: 'ses_1' } }]);
});

test('what a removed node got meanwhile is there once it comes back', () => {
  const id = board.add(film, { x: 0, y: 0 }, 420);
  board.remove([id]);
  board.change(id, { sessionId: 'ses_1' });
  expect(board.seen.nodes).toEqual([]);
  board.undo();
  expect(board.seen.nodes).toMatchObject([{ data: { sessionId: 'ses_1' } }]);
});

test('moving by keys again and again is one step', () => {
  board.add(film, { x: 0, y: 0 }, 420);
  for (const x of [5, 10, 15]) {
    board.mark('keys');
    board.put({ nodes: board.seen.nodes.map((each) => ({ ...each, position: { x, y: 0 } })) });
  }
  board.undo();
  expect(board.seen.nodes[0]?.position.x).toBe(0);
  board.undo();
  expect([board.seen.nodes.length, board.seen.canUndo, board.undo()]).toEqual([0, false, false]);
});

test('that there is no room is said until there is', () => {
  kept.isFull = true;
  board.add(film, { x: 0, y: 0 }, 420);
  vi.runAllTimers();
  expect(board.seen.isUnkept).toBe(true);
  kept.isFull = false;
  board.keep();
  expect([board.seen.isUnkept, again().nodes.length]).toEqual([false, 1]);
});

test('what another window changed is taken over, and what it did not is not', () => {
  const id = board.add({ plugin: 'prompt' }, { x: 0, y: 0 }, 300);
  vi.runAllTimers();
  const other = new Board(board.id, canvases);
  vi.advanceTimersByTime(5);
  other.change(id, { text: 'A cube' });
  other.keep();
  board.reread();
  expect(board.seen.nodes[0]?.data.text).toBe('A cube');
  const { nodes } = board.seen;
  board.reread();
  expect(board.seen.nodes).toBe(nodes);
});

test('one that was deleted is not kept again', () => {
  board.add(film, { x: 0, y: 0 }, 420);
  canvases.remove(board.id);
  board.leave();
  board.keep();
  vi.runAllTimers();
  expect(canvases.has(board.id)).toBe(false);
});
