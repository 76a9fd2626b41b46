import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { Problem, type Schemas } from '../api/client';
import { empty } from './layout';
import { type Server, Shared } from './shared';

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

type View = Schemas['CanvasView'];
type Body = Pick<View, 'name' | 'nodes' | 'edges'> & { version?: number };

/** Keeps canvases as the server does: a change of another version than there is is refused. */
class Keeper implements Server {
  readonly there = new Map<string, View>();
  isAway = false;
  refuses: Problem | undefined;
  puts = 0;

  list = async () => {
    this.answer();
    return [...this.there.values()].map(({ id, version, name, nodes, createdAt, changedAt }) => ({ id, version, name, nodeCount: nodes.length, sessionIds: [], createdAt, changedAt }));
  };
  get = async (id: string) => {
    this.answer();
    const found = this.there.get(id);
    if (!found) throw new Problem(404, 'NOT_FOUND', `no canvas '${id}'`);
    return found;
  };
  put = async (id: string, body: object) => {
    this.answer();
    if (this.refuses) throw this.refuses;
    const { version, name, nodes, edges } = body as Body;
    const before = this.there.get(id);
    if (!before && version !== undefined) throw new Problem(404, 'NOT_FOUND', `no canvas '${id}'`);
    if (before && before.version !== version) throw new Problem(409, 'CONFLICT', `it is at version ${before.version}, and you changed ${version}`);
    this.puts += 1;
    const at = new Date(1_800_000_000_000 + 1000 * this.puts).toISOString();
    const made: View = { id, name, nodes, edges, view: null, version: (before?.version ?? 0) + 1, createdAt: at, changedAt: at };
    this.there.set(id, made);
    return { id, name, version: made.version, nodeCount: nodes.length, sessionIds: [], createdAt: at, changedAt: at };
  };
  remove = async (id: string) => {
    this.answer();
    this.there.delete(id);
  };

  private answer(): void {
    if (this.isAway) throw new Problem(0, 'UNREACHABLE', 'The server does not answer.');
  }
}

const node = (id: string, x = 0) => ({ id, position: { x, y: 0 }, data: { plugin: 'prompt', text: 'A ball' } });
const drawn = (name: string, changedAt: number, ...nodes: ReturnType<typeof node>[]) => ({ ...empty(name), changedAt, nodes });

let server: Keeper;
const browser = (kept = new Kept()) => new Shared('ann', kept, server);

beforeEach(() => {
  vi.useFakeTimers();
  server = new Keeper();
});
afterEach(() => void vi.useRealTimers());

/** Draw something in a browser, and have it sent. */
async function draw(shared: Shared, id: string, ...nodes: ReturnType<typeof node>[]): Promise<void> {
  const before = shared.canvases.read(id)?.layout;
  shared.canvases.write(id, drawn(before?.name ?? 'Spring', Math.max(Date.now(), (before?.changedAt ?? 0) + 1), ...nodes));
  await shared.sync();
}

const xs = (shared: Shared, id: string) => shared.canvases.read(id)?.layout.nodes.map(({ position }) => position.x);

test('what lies in a browser from before is sent once, and what nothing was drawn on is not', async () => {
  const kept = new Kept();
  const before = browser(kept);
  before.canvases.write('old', drawn('Old', 5, node('a')));
  const blank = before.create();
  await browser(kept).sync();
  await browser(kept).sync();
  expect([...server.there.keys()]).toEqual(['old']);
  expect([server.puts, before.canvases.has(blank)]).toEqual([1, true]);
});

test('another browser has them in its list, has one once it is opened, and sends what it draws on', async () => {
  const [one, other] = [browser(), browser()];
  await draw(one, 'c', node('a', 1));
  await other.sync();
  expect(other.list()).toMatchObject([{ id: 'c', name: 'Spring', nodes: 1 }]);
  expect([other.has('c'), other.canvases.has('c'), other.current()]).toEqual([true, false, 'c']);
  await other.bring('c');
  expect(xs(other, 'c')).toEqual([1]);
  await draw(other, 'c', node('a', 2));
  const heard: string[] = [];
  one.hear((id) => heard.push(id));
  await one.sync();
  expect([xs(one, 'c'), heard, server.there.get('c')?.version]).toEqual([[2], ['c'], 2]);
});

test('what is written is sent by itself a moment later, all at once', async () => {
  const one = browser();
  await one.sync();
  for (const x of [1, 2, 3]) one.canvases.write('c', drawn('Spring', x, node('a', x)));
  await vi.runAllTimersAsync();
  expect([server.puts, server.there.get('c')?.nodes[0]?.position.x]).toEqual([1, 3]);
});

test('while the server is away it is said, and what was drawn is sent once that is back', async () => {
  const one = browser();
  await draw(one, 'c', node('a', 1));
  server.isAway = true;
  await draw(one, 'c', node('a', 2));
  expect([one.shown.isAway, xs(one, 'c'), server.there.get('c')?.version]).toEqual([true, [2], 1]);
  server.isAway = false;
  await one.sync();
  expect([one.shown.isAway, server.there.get('c')?.version, server.there.get('c')?.nodes[0]?.position.x]).toEqual([false, 2, 2]);
});

test('what was drawn in two browsers is written over by neither, and both are there once it is said that the other is shown', async () => {
  const [one, other] = [browser(), browser()];
  await draw(one, 'c', node('a', 1));
  await other.sync();
  await other.bring('c');
  await draw(one, 'c', node('a', 2));
  await draw(other, 'c', node('a', 3));
  expect(other.shown.refused.get('c')).toMatchObject({ isConflict: true, problem: { message: 'it is at version 2, and you changed 1' } });
  await draw(other, 'c', node('a', 4)); // it goes on being kept
  expect([xs(other, 'c'), server.there.get('c')?.nodes[0]?.position.x, server.puts]).toEqual([[4], 2, 2]);
  await other.takeTheirs('c');
  expect([xs(other, 'c'), other.shown.refused.size]).toEqual([[2], 0]);
  const copy = other.list().find(({ id }) => id !== 'c');
  expect(copy?.name).toBe('Spring, as drawn here');
  expect(server.there.get(copy?.id ?? '')?.nodes[0]?.position.x).toBe(4);
});

test('who says so has what was drawn here everywhere', async () => {
  const [one, other] = [browser(), browser()];
  await draw(one, 'c', node('a', 1));
  await other.sync();
  await other.bring('c');
  await draw(one, 'c', node('a', 2));
  await draw(other, 'c', node('a', 3));
  await other.keepMine('c');
  await one.sync();
  expect([xs(one, 'c'), other.shown.refused.size, server.there.get('c')?.version]).toEqual([[3], 0, 3]);
});

test('one that is deleted is gone elsewhere, also where the server was away; but what was drawn on it since stays', async () => {
  const [one, other] = [browser(), browser()];
  for (const id of ['c', 'd']) await draw(one, id, node('a', 1));
  await other.sync();
  for (const id of ['c', 'd']) await other.bring(id);
  server.isAway = true;
  one.remove('c');
  one.remove('d');
  await one.sync();
  expect([one.list(), server.there.size]).toEqual([[], 2]);
  server.isAway = false;
  await one.sync();
  expect(server.there.size).toBe(0);
  await draw(other, 'd', node('a', 5));
  expect([other.list().map(({ id }) => id), server.there.get('d')?.version]).toEqual([['d'], 1]);
  await one.sync();
  expect(one.list().map(({ id }) => id)).toEqual(['d']);
});

test('what the server does not take is said, kept here, and not sent again and again', async () => {
  const one = browser();
  server.refuses = new Problem(422, 'INVALID_INPUT', 'this canvas has 600000 bytes');
  await draw(one, 'c', node('a', 1));
  await one.sync();
  expect(one.shown.refused.get('c')).toMatchObject({ isConflict: false, problem: { message: 'this canvas has 600000 bytes' } });
  server.refuses = undefined;
  await one.sync();
  expect([server.puts, xs(one, 'c')]).toEqual([0, [1]]);
  await draw(one, 'c', node('a', 2));
  expect([server.puts, one.shown.refused.size]).toEqual([1, 0]);
});

test('one that this browser cannot read any more comes from the server, and what was drawn in its place is no change of that', async () => {
  const kept = new Kept();
  const one = browser(kept);
  await draw(one, 'c', node('a', 1));
  kept.setItem('koda.canvas/ann/c', '{');
  await one.sync();
  expect([xs(one, 'c'), server.there.get('c')?.version]).toEqual([[1], 1]);
  kept.setItem('koda.canvas/ann/c', '{');
  server.isAway = true;
  one.doubt('c'); // it was opened as an empty one
  await draw(one, 'c', node('other'));
  server.isAway = false;
  await one.sync();
  expect([one.shown.refused.get('c')?.isConflict, server.there.get('c')?.nodes[0]?.id]).toEqual([true, 'a']);
});

test('what is drawn and not kept yet is looked at before what came is taken', async () => {
  const [one, other] = [browser(), browser()];
  await draw(one, 'c', node('a', 1));
  await other.sync();
  await other.bring('c');
  await draw(one, 'c', node('a', 2));
  other.settle = (id) => {
    other.settle = () => {};
    other.canvases.write(id, drawn('Spring', Date.now() + 9_000_000_000_000, node('a', 7)));
  };
  await other.sync();
  expect([xs(other, 'c'), other.shown.refused.get('c')?.isConflict]).toEqual([[7], true]);
});
