import { expect, test, vi } from 'vitest';
import { Build } from './build';

const OWN = '/page/index-abc.js';

/** A build, and the page as the server has it. */
function opened() {
  const server = { has: `<script type="module" crossorigin src="${OWN}"></script>` as string | undefined };
  const told = vi.fn();
  const build = new Build(
    () => OWN,
    async () => server.has,
  );
  build.watch(told);
  return { server, told, build };
}

test('a server that has another build is found, and one that has the own again', async () => {
  const { server, told, build } = opened();
  expect([await build.look(), build.isReplaced]).toEqual([false, false]);
  server.has = '<script type="module" src="/page/index-def.js"></script>';
  expect([await build.look(), build.isReplaced, told.mock.calls.length]).toEqual([true, true, 2]);
  server.has = `<script src="${OWN}">`;
  expect(await build.look()).toBe(false);
});

test('what was known holds where the server does not say, or nobody knows what is open', async () => {
  const { server, build } = opened();
  server.has = 'another';
  await build.look();
  server.has = undefined;
  expect(await build.look()).toBe(true);
  const refused = new Build(() => OWN, () => Promise.reject(new Error('away'))); // prettier-ignore
  expect(await refused.look()).toBe(false);
  const unnamed = new Build(() => undefined, async () => 'another'); // prettier-ignore
  expect(await unnamed.look()).toBe(false);
});

test('who says that a part is missed is counted until that is over', () => {
  const { told, build } = opened();
  const [one, other] = [build.miss(), build.miss()];
  expect(build.missed).toBe(2);
  one();
  other();
  expect([build.missed, told.mock.calls.length]).toEqual([0, 4]);
});
