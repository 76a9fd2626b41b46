import { expect, test } from 'vitest';
import { MOST, Notes } from './notes';

function storage(): Storage {
  const kept = new Map<string, string>();
  return {
    getItem: (name: string) => kept.get(name) ?? null,
    setItem: (name: string, value: string) => void kept.set(name, value),
    removeItem: (name: string) => void kept.delete(name),
  } as Storage;
}

const none = () => Promise.resolve(undefined);

test('notes are sent in the order in which they were made, with their pictures, and none that says nothing', async () => {
  const notes = new Notes('ses_1', storage());
  let bring: (id: string) => void = () => {};
  notes.add({ time: 1 }, () => new Promise((found) => (bring = found)));
  notes.add({ time: 2 }, () => Promise.reject(new Error('no picture')));
  notes.add({ time: 3 }, none);
  const [first, second] = notes.list;
  notes.change(first?.key ?? 0, { text: ' red ' });
  notes.change(second?.key ?? 0, { text: 'slower' });
  const written = notes.written();
  bring('ast_1');
  expect(await written).toEqual([{ time: 1, text: 'red', picture: 'ast_1' }, { time: 2, text: 'slower' }]);
});

test('notes that were taken back are there again, behind those that were made since', async () => {
  const notes = new Notes('ses_1', storage());
  notes.add({ time: 1 }, none);
  notes.newest = undefined;
  notes.change(1, { text: 'red' });
  notes.giveBack([{ time: 2, text: 'larger', picture: 'ast_1' }]);
  notes.giveBack([]);
  expect(notes.list.map(({ key }) => key)).toEqual([1, 2]);
  expect(notes.newest).toBeUndefined();
  expect(await notes.written()).toEqual([{ time: 1, text: 'red' }, { time: 2, text: 'larger', picture: 'ast_1' }]);
});

test('what was typed is there again after a reload, and nothing of another session', () => {
  const kept = storage();
  const before = new Notes('ses_1', kept);
  before.add({ time: 1 }, none);
  before.change(before.list[0]?.key ?? 0, { text: 'red' });
  const after = new Notes('ses_1', kept);
  expect(after.list).toMatchObject([{ time: 1, text: 'red' }]);
  after.add({ time: 2 }, none);
  expect(new Set(after.list.map(({ key }) => key)).size).toBe(2);
  expect(new Notes('ses_2', kept).list).toEqual([]);
  after.clear([after.list[0]?.key ?? 0]);
  expect(after.list).toMatchObject([{ time: 2 }]);
  after.clear(after.list.map(({ key }) => key));
  expect(new Notes('ses_1', kept).list).toEqual([]);
  kept.setItem('koda.notes.ses_1', '{"nonsense"');
  expect(new Notes('ses_1', kept).list).toEqual([]);
});

test('there are so many at most', () => {
  const notes = new Notes('ses_1', storage());
  for (let time = 0; time < MOST + 3; time += 1) notes.add({ time }, none);
  expect(notes.list).toHaveLength(MOST);
});
