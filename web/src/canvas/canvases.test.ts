import { expect, test } from 'vitest';
import { Canvases, withAnimation } from './canvases';
import { empty } from './layout';

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

test('one that was begun is there until it is removed, and which was open last is known', () => {
  const canvases = new Canvases('ann', new Kept());
  const [id, other] = [canvases.create(), canvases.create()];
  expect(canvases.list().map(({ name, nodes }) => [name, nodes])).toEqual(expect.arrayContaining([['Canvas', 0], ['Canvas 2', 0]]));
  expect(canvases.lastOpen()).toBeUndefined();
  canvases.opened(other);
  expect(canvases.lastOpen()).toBe(other);
  canvases.remove(other);
  expect([canvases.ids(), canvases.has(other), canvases.read(other)]).toEqual([[id], false, undefined]);
});

test('who hears of them is told what is written, also a new name, which is a change', () => {
  const canvases = new Canvases('ann', new Kept());
  const id = canvases.create();
  const heard: string[] = [];
  canvases.hear((each) => heard.push(each));
  const before = canvases.list()[0]?.changedAt ?? 0;
  canvases.rename(id, 'Spring');
  expect(heard).toEqual([id]);
  expect(canvases.list()[0]?.changedAt).toBeGreaterThan(before);
});

test('each person has their own', () => {
  const kept = new Kept();
  const [ann, bob] = [new Canvases('ann', kept), new Canvases('ann/b', kept)];
  const id = ann.create();
  expect([ann.list().length, bob.list().length, bob.has(id)]).toEqual([1, 0, false]);
});

test('names differ, and one that is nothing is none', () => {
  const canvases = new Canvases('ann', new Kept());
  const [one, two] = [canvases.create(), canvases.create()];
  canvases.rename(one, '  Spring campaign ');
  canvases.rename(two, ' ');
  const names = Object.fromEntries(canvases.list().map(({ id, name }) => [id, name]));
  expect([names[one], names[two]]).toEqual(['Spring campaign', 'Canvas']);
  expect(canvases.read(canvases.create())?.layout.name).toBe('Canvas 2');
});

test('one that cannot be read is in the list, and what was changed last is first', () => {
  const kept = new Kept();
  const canvases = new Canvases('ann', kept);
  canvases.write('old', { ...empty('Old'), changedAt: 1 });
  canvases.write('new', { ...empty('New'), changedAt: 2 });
  kept.setItem('koda.canvas/ann/broken', '{');
  expect(canvases.list().map(({ id }) => id)).toEqual(['new', 'old', 'broken']);
  expect(canvases.read('broken')?.lost).toBe('all');
});

test('which animations are on one is known without opening it, and an address says which one is to come', () => {
  const canvases = new Canvases('ann', new Kept());
  const id = canvases.create();
  const film = { id: 'a', position: { x: 0, y: 0 }, data: { plugin: 'animation-generator', sessionId: 'ses_1' } };
  canvases.write(id, { ...empty(), nodes: [film, { ...film, id: 'b', data: { plugin: 'prompt' } }] });
  expect(canvases.list()).toMatchObject([{ nodes: 2, sessionIds: ['ses_1'] }]);
  expect(withAnimation(id, 'ses_1')).toBe(`/c/${id}?put=ses_1`);
});
