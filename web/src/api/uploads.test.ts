import { expect, test } from 'vitest';
import { Problem, type Schemas } from './client';
import { filesOf, Uploads } from './uploads';

interface Going {
  file: File;
  told: (sent: number) => void;
  signal: AbortSignal;
  done: (asset: Schemas['AssetView']) => void;
  fail: (error: Error) => void;
}

function begun() {
  const going: Going[] = [];
  const stored: string[] = [];
  const uploads = new Uploads(
    ({ id }) => stored.push(id),
    (file, told, signal) => new Promise((done, fail) => going.push({ file, told, signal, done, fail })),
  );
  return { going, stored, uploads };
}

const named = (name: string) => new File(['x'], name);
const settled = () => new Promise((done) => setTimeout(done));
const states = (uploads: Uploads) => uploads.list.map(({ name, state }) => `${name} ${state}`);

test('two go at a time, and the next when one is stored', async () => {
  const { going, stored, uploads } = begun();
  uploads.add(['a', 'b', 'c'].map(named));
  expect(states(uploads)).toEqual(['a goes', 'b goes', 'c waits']);
  going[0]?.told(0.5);
  expect(uploads.list[0]?.sent).toBe(0.5);
  going[0]?.done({ id: 'ast_a' } as Schemas['AssetView']);
  await settled();
  expect(stored).toEqual(['ast_a']);
  expect(states(uploads)).toEqual(['b goes', 'c goes']);
});

test('one that is not taken says why, and is sent again when that is wanted', async () => {
  const { going, stored, uploads } = begun();
  uploads.add([named('a')]);
  going[0]?.told(1);
  going[0]?.fail(new Problem(413, 'BODY_TOO_LARGE', 'too large'));
  await settled();
  expect(uploads.list[0]).toMatchObject({ state: 'refused', said: 'too large' });
  const { key } = uploads.list[0] ?? { key: 0 };
  uploads.again(key);
  uploads.again(key); // once
  expect(going.length).toBe(2);
  expect(uploads.list[0]).toMatchObject({ state: 'goes', sent: 0, said: undefined });
  going[1]?.done({ id: 'ast_a' } as Schemas['AssetView']);
  await settled();
  expect([stored, uploads.list]).toEqual([['ast_a'], []]);
});

test('one that is stopped is ended, and makes room', async () => {
  const { going, stored, uploads } = begun();
  uploads.add(['a', 'b', 'c'].map(named));
  uploads.drop(uploads.list[0]?.key ?? 0);
  expect(going[0]?.signal.aborted).toBe(true);
  expect(states(uploads)).toEqual(['b goes', 'c goes']);
  going[0]?.done({ id: 'late' } as Schemas['AssetView']);
  await settled();
  expect(stored).toEqual([]);
  uploads.close();
  expect(going.map(({ signal }) => signal.aborted)).toEqual([true, true, true]);
});

test('only files are taken of what is dropped', () => {
  const files = [named('a')] as unknown as FileList;
  expect(filesOf({ types: ['Files'], files }).length).toBe(1);
  expect(filesOf({ types: ['text/plain'], files: [] as unknown as FileList })).toEqual([]);
  expect(filesOf(null)).toEqual([]);
});
