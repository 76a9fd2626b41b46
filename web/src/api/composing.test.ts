import { expect, test, vi } from 'vitest';
import { Problem, type Schemas } from './client';
import { Composing, isOnItsWay } from './composing';
import { ownedBy, whose } from './owner';
import { Uploads } from './uploads';

const stored = (id: string) => ({ id, name: id }) as Schemas['AssetView'];
const settled = () => new Promise((done) => setTimeout(done));

type Keeps = ConstructorParameters<typeof Composing>[2];
type Kept = ReturnType<NonNullable<Keeps>['read']>;

function begun(keeps?: Keeps) {
  const answers: { done: (asset: Schemas['AssetView']) => void; fail: (error: Error) => void }[] = [];
  const removed: string[] = [];
  const uploads = new Uploads(
    () => new Promise((done, fail) => answers.push({ done, fail })),
    () => '/',
  );
  return { uploads, answers, removed, composing: new Composing(uploads, (id) => removed.push(id), keeps) };
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
  composing.keyOf(composing.body);
  composing.made(composing.body);
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
  const { body } = composing;
  const key = composing.keyOf(body);
  expect(composing.keyOf(body)).toBe(key);
  composing.put({ prompt: 'A cube' });
  composing.made(body);
  expect(composing.asked.prompt).toBe('A cube');
  expect(composing.keyOf(composing.body)).not.toBe(key);
  composing.made(composing.body);
  expect(composing.asked.prompt).toBe('');
});

test('exactly the files that went along are gone from it once it is made', async () => {
  const { composing, uploads, answers } = begun();
  composing.put({ prompt: 'A ball' });
  composing.attach([new File(['x'], 'a.png')]);
  answers[0]?.done(stored('ast_a'));
  await settled();
  const { body } = composing;
  composing.keyOf(body);
  composing.put({ prompt: 'A ball, and another' });
  composing.attach([new File(['x'], 'b.png'), new File(['x'], 'c.png')]);
  answers[1]?.done(stored('ast_b'));
  await settled();
  composing.made(body);
  expect(composing.files.map(({ name, id }) => [name, id])).toEqual([['b.png', 'ast_b'], ['c.png', undefined]]);
  expect([composing.asked.prompt, uploads.list.map(({ name }) => name)]).toEqual(['A ball, and another', ['c.png']]);
});

/** Where two people's things are kept, of whom one is at the page. */
function keeping() {
  const kept = new Map<string, Kept>();
  const at = { user: 'ann' };
  const none: Kept = { prompt: '', duration: '', aspect: '', fps: '', takes: '', style: '', project: '', mode: '', rules: [], budget: {}, files: [], sent: { asked: '', key: '' } };
  return { at, keeps: { read: () => kept.get(at.user) ?? none, put: (what: Kept) => void kept.set(at.user, what) } };
}

test('what was sent and not answered is the same request after a reload, with its files', async () => {
  const { keeps } = keeping();
  const before = begun(keeps);
  before.composing.put({ prompt: 'A ball' });
  before.composing.attach([new File(['x'], 'a.png')]);
  before.answers[0]?.done(stored('ast_a'));
  await settled();
  const { body } = before.composing;
  const key = before.composing.keyOf(body);
  const { composing, removed } = begun(keeps);
  composing.restore();
  expect(composing.body).toEqual(body);
  expect(composing.keyOf(composing.body)).toBe(key);
  composing.failed(new Problem(0, 'UNREACHABLE', ''));
  expect(composing.keyOf(composing.body)).toBe(key);
  composing.failed(new Problem(422, 'X', ''));
  expect(composing.keyOf(composing.body)).not.toBe(key);
  for (const each of composing.files) composing.drop(each);
  const after = begun(keeps).composing;
  after.restore();
  expect([removed, after.files, after.asked.prompt]).toEqual([['ast_a'], [], 'A ball']);
});

test('each person who is at the page goes on with what is theirs', () => {
  const { at, keeps } = keeping();
  const { composing, uploads } = begun(keeps);
  composing.put({ prompt: 'of ann' });
  composing.attach([new File(['x'], 'a.png')]);
  const prompts = ['bob', 'ann'].map((user) => {
    at.user = user;
    composing.change();
    return composing.asked.prompt;
  });
  expect([prompts, composing.files, uploads.list]).toEqual([['', 'of ann'], [], []]);
});

test('what was not taken is told to who sent it alone', () => {
  vi.stubGlobal('window', new EventTarget());
  vi.stubGlobal('sessionStorage', { getItem: () => null, setItem: () => {}, removeItem: () => {} });
  ownedBy('ann');
  const { composing } = begun();
  composing.put({ prompt: 'of ann' });
  composing.keyOf(composing.body);
  const sender = whose();
  ownedBy('bob');
  composing.change();
  composing.put({ prompt: 'of bob' });
  const key = composing.keyOf(composing.body);
  composing.failed(new Problem(422, 'X', 'of ann'), { isElsewhere: true, sender });
  expect([composing.problem, composing.isUntold, composing.keyOf(composing.body)]).toEqual([undefined, false, key]);
  ownedBy('ann');
  composing.failed(new Problem(422, 'X', 'of ann'), { isElsewhere: true, sender });
  expect([composing.problem?.message, composing.isUntold]).toEqual(['of ann', true]);
});

test('what was said of a prompt is gone once another is typed', () => {
  const { composing } = begun();
  for (const prompt of ['A cube', '']) {
    composing.put({ prompt: 'A ball' });
    composing.failed(new Problem(422, 'X', 'no room'), { isElsewhere: true });
    composing.put({ prompt: 'A ball', duration: '5' });
    expect([composing.seen.problem?.message, composing.seen.isUntold]).toEqual(['no room', true]);
    composing.put({ prompt });
    expect([composing.seen.problem, composing.seen.isUntold]).toEqual([undefined, false]);
  }
});

test('what was said of another field stays while another prompt is typed', () => {
  const { composing } = begun();
  composing.put({ prompt: 'A ball', budget: { tokens: '-5' } });
  composing.failed(new Problem(422, 'X', 'too few', [{ field: 'budget.tokens', problem: 'too few' }]));
  composing.put({ prompt: 'A cube' });
  expect([composing.seen.problem?.message, composing.body]).toMatchObject(['too few', { budget: { tokens: -5 } }]);
});

test('what is no number is sent as it was typed', () => {
  const { composing } = begun();
  composing.put({ prompt: 'A ball', duration: 'long', fps: '24', budget: { tokens: '1,000', warnAt: '50' } });
  expect(composing.body).toMatchObject({ options: { duration: 'long', fps: 24 }, budget: { tokens: '1,000', warnAt: 0.5 } });
});

test('what else was said goes along, and nothing of what was not', () => {
  const { composing } = begun();
  composing.put({ prompt: 'A ball', style: ' playful ', mode: 'ask', budget: { costUsd: '2', tokens: '' } });
  expect(composing.body).toEqual({ prompt: 'A ball', options: {}, assetIds: [], style: 'playful', permissions: { mode: 'ask' }, budget: { costUsd: 2 } });
  const rules = [{ decision: 'deny' as const, tool: 'write_file' }];
  composing.put({ mode: '', rules });
  expect(composing.body).toMatchObject({ permissions: { rules } });
  composing.made(composing.body);
  expect(composing.body).toEqual({ prompt: '', options: {}, assetIds: [] });
});
