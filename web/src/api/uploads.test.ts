import { expect, test } from 'vitest';
import { Problem, type Schemas } from './client';
import { type Ended, filesOf, refusalBelow, refusalOf, sentOf, Uploads } from './uploads';

interface Going {
  file: File;
  told: (sent: number) => void;
  signal: AbortSignal;
  once: string;
  done: (asset: Schemas['AssetView']) => void;
  fail: (error: Error) => void;
}

/** A page of which one screen is shown, and a server that answers when it is told to. */
function begun() {
  const going: Going[] = [];
  const stored: string[] = [];
  const page = { at: '/assets' };
  const uploads = new Uploads(
    (file, told, signal, once) => new Promise((done, fail) => going.push({ file, told, signal, once, done, fail })),
    () => page.at,
  );
  const ended: Ended[] = [];
  uploads.hear((each) => ended.push(each));
  const add = (names: readonly string[], at = '/assets') => uploads.add(names.map(named), { at }, ({ id }) => stored.push(id));
  return { going, stored, uploads, page, ended, add };
}

const named = (name: string) => new File(['x'], name);
const asset = (id: string) => ({ id, name: id }) as Schemas['AssetView'];
const settled = () => new Promise((done) => setTimeout(done));
const states = (uploads: Uploads) => uploads.list.map(({ name, state }) => `${name} ${state}`);

test('a file that never will be taken is told from one that may be later, and its name is said once', async () => {
  const { going, uploads, add } = begun();
  add(['a.png', 'b.png']);
  going[0]?.fail(new Problem(415, 'BAD_UPLOAD', "'a.png' is no picture"));
  going[1]?.fail(new Problem(429, 'LIMIT_REACHED', 'no room'));
  await settled();
  expect(uploads.list.map(({ isFinal }) => isFinal)).toEqual([true, false]);
  expect(uploads.list.map(refusalOf)).toEqual(['a.png is no picture', 'b.png: no room']);
  expect(uploads.list.map(refusalBelow)).toEqual(['It is no picture', 'no room']);
});

test('two go at a time, and the next when one is stored', async () => {
  const { going, stored, uploads, add } = begun();
  add(['a', 'b', 'c']);
  expect(states(uploads)).toEqual(['a goes', 'b goes', 'c waits']);
  going[0]?.told(0.5);
  expect([uploads.list[0]?.sent, sentOf(uploads.list)]).toEqual([0.5, 0.5 / 3]);
  going[0]?.done(asset('ast_a'));
  await settled();
  expect(stored).toEqual(['ast_a']);
  expect(states(uploads)).toEqual(['b goes', 'c goes']);
});

test('what is brought elsewhere does not wait for all that is under way', () => {
  const { uploads, add } = begun();
  add(['a', 'b', 'c']);
  add(['d', 'e'], '/');
  expect(states(uploads)).toEqual(['a goes', 'b goes', 'c waits', 'd goes', 'e waits']);
});

test('one that is not taken says why, and is sent again when that is wanted', async () => {
  const { going, stored, uploads, add } = begun();
  const [key = 0] = add(['a']);
  going[0]?.told(1);
  going[0]?.fail(new Problem(413, 'BODY_TOO_LARGE', 'too large'));
  await settled();
  expect(uploads.list[0]).toMatchObject({ state: 'refused', said: 'too large', isUntold: false });
  uploads.again(key);
  uploads.again(key); // once
  expect(going.length).toBe(2);
  expect(going[1]?.once).toBe(going[0]?.once); // it may have been stored, and only the answer been lost
  expect(uploads.list[0]).toMatchObject({ state: 'goes', sent: 0, said: undefined });
  going[1]?.done(asset('ast_a'));
  await settled();
  expect([stored, uploads.list]).toEqual([['ast_a'], []]);
});

test('one that is stopped is ended, and makes room', async () => {
  const { going, stored, uploads, add } = begun();
  const [key = 0] = add(['a', 'b', 'c']);
  uploads.drop(key);
  expect(going[0]?.signal.aborted).toBe(true);
  expect(states(uploads)).toEqual(['b goes', 'c goes']);
  going[0]?.done(asset('late'));
  await settled();
  expect(stored).toEqual([]);
  uploads.close();
  expect(going.map(({ signal }) => signal.aborted)).toEqual([true, true, true]);
  expect([uploads.list, uploads.areUnderWay]).toEqual([[], false]);
});

test('whoever is elsewhere hears how it ended, and is told once of what was not taken', async () => {
  const { going, stored, uploads, page, ended, add } = begun();
  add(['a', 'b']);
  page.at = '/renders';
  going[0]?.done(asset('ast_a'));
  going[1]?.fail(new Problem(415, 'BAD_UPLOAD', 'no picture'));
  await settled();
  expect(stored).toEqual(['ast_a']);
  expect(ended).toMatchObject([{ upload: { name: 'a' }, asset: { id: 'ast_a' }, isElsewhere: true }, { upload: { name: 'b' }, isElsewhere: true }]);
  expect(uploads.list).toMatchObject([{ name: 'b', said: 'no picture', isUntold: true }]);
  uploads.told('/');
  expect(uploads.list[0]?.isUntold).toBe(true);
  uploads.told('/assets');
  expect(uploads.list).toMatchObject([{ name: 'b', state: 'refused', isUntold: false }]);
});

test('one that rests is not under way, and is sent again from its beginning', async () => {
  const { going, stored, uploads, add } = begun();
  const [key = 0] = add(['a']);
  going[0]?.told(0.5);
  uploads.rest(key);
  expect([states(uploads), uploads.areUnderWay, going[0]?.signal.aborted]).toEqual([['a rests'], false, true]);
  uploads.again(key);
  expect(uploads.list[0]).toMatchObject({ state: 'goes', sent: 0 });
  going[0]?.done(asset('late'));
  going[1]?.done(asset('ast_a'));
  await settled();
  expect(stored).toEqual(['ast_a']);
});

test('only files are taken of what is dropped', () => {
  const files = [named('a')] as unknown as FileList;
  expect(filesOf({ types: ['Files'], files }).length).toBe(1);
  expect(filesOf({ types: ['text/plain'], files: [] as unknown as FileList })).toEqual([]);
  expect(filesOf(null)).toEqual([]);
});
