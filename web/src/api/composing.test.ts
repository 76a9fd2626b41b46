import { expect, test } from 'vitest';
import type { Schemas } from './client';
import { Composing, isOnItsWay } from './composing';
import { Uploads } from './uploads';

const stored = (id: string) => ({ id, name: id }) as Schemas['AssetView'];
const settled = () => new Promise((done) => setTimeout(done));

function begun() {
  const answers: { done: (asset: Schemas['AssetView']) => void; fail: (error: Error) => void }[] = [];
  const removed: string[] = [];
  const uploads = new Uploads(
    () => new Promise((done, fail) => answers.push({ done, fail })),
    () => '/',
  );
  return { uploads, answers, removed, composing: new Composing(uploads, (id) => removed.push(id)) };
}

test('a file goes along once it is stored, wherever one is by then', async () => {
  const { composing, uploads, answers } = begun();
  composing.put({ prompt: 'A ball', duration: '5' });
  composing.attach([new File(['x'], 'logo.png')]);
  expect(composing.files.map((each) => isOnItsWay(each, uploads.list))).toEqual([true]);
  expect(composing.body).toEqual({ prompt: 'A ball', options: { duration: 5 }, assetIds: [] });
  answers[0]?.done(stored('ast_1'));
  await settled();
  expect(composing.files.map((each) => isOnItsWay(each, uploads.list))).toEqual([false]);
  expect(composing.body.assetIds).toEqual(['ast_1']);
});

test('one that was refused keeps nothing from being made', async () => {
  const { composing, uploads, answers } = begun();
  composing.attach([new File(['x'], 'notes.txt')]);
  answers[0]?.fail(new Error('no picture'));
  await settled();
  expect(composing.files.map((each) => isOnItsWay(each, uploads.list))).toEqual([false]);
  composing.made(JSON.stringify(composing.body));
  expect([composing.files, uploads.list]).toEqual([[], []]);
});

test('what is taken out is stopped or deleted, unless it was there before', async () => {
  const { composing, uploads, answers, removed } = begun();
  composing.attach([new File(['x'], 'a.png'), new File(['x'], 'b.png')]);
  answers[0]?.done(stored('ast_a'));
  await settled();
  for (let again = 0; again < 2; again += 1) composing.name({ id: 'ast_c', name: 'c.png' }); // once
  expect(composing.files.map(({ name }) => name)).toEqual(['a.png', 'b.png', 'c.png']);
  for (const each of composing.files) composing.drop(each);
  expect([removed, uploads.list, composing.files]).toEqual([['ast_a'], [], []]);
});

test('what is sent again unchanged is the same request, and what was typed since it was made stays', () => {
  const { composing } = begun();
  composing.put({ prompt: 'A ball' });
  const said = JSON.stringify(composing.body);
  const key = composing.keyOf(said);
  expect([composing.keyOf(said) === key, composing.keyOf('another') === key]).toEqual([true, false]);
  composing.put({ prompt: 'A cube' });
  composing.made(said);
  expect(composing.asked.prompt).toBe('A cube');
  composing.made(JSON.stringify(composing.body));
  expect(composing.asked.prompt).toBe('');
});
