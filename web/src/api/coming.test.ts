import { expect, test } from 'vitest';
import { NotCome, patiently } from './coming';
import type { Standing } from './reach';

/** A server that is looked at; `away` says for how many looks it is away. */
function server({ away = 0, isReplaced = false }) {
  const told = { looks: 0, waits: 0 };
  let left = away;
  const reach = {
    now: 'there' as Standing,
    check: async () => {
      told.looks += 1;
      reach.now = left > 0 ? 'away' : 'there';
      left -= 1;
    },
    back: async () => {
      told.waits += 1;
      left = 0;
      reach.now = 'there';
    },
  };
  return { told, of: { reach, build: { look: async () => isReplaced } } };
}

/** What comes once it was asked for so often. */
function part(fails: number) {
  const asked = { times: 0 };
  const load = async () => {
    asked.times += 1;
    if (asked.times <= fails) throw new TypeError('Failed to fetch dynamically imported module');
    return 'the part';
  };
  return { asked, load };
}

test('a part that comes is asked for once', async () => {
  const { told, of } = server({});
  expect([await patiently(part(0).load, of), told.looks]).toEqual(['the part', 0]);
});

test('it is waited for while the server is away, and asked for again then', async () => {
  const { told, of } = server({ away: 1 });
  const { asked, load } = part(2); // it went away once more, for a moment
  expect([await patiently(load, of), asked.times, told.waits]).toEqual(['the part', 3, 1]);
});

test('a server that is there is asked twice, and then what it has is looked at', async () => {
  for (const isReplaced of [true, false]) {
    const { asked, load } = part(9);
    const problem: unknown = await patiently(load, server({ isReplaced }).of).catch((found: unknown) => found);
    expect(problem).toBeInstanceOf(NotCome);
    expect([(problem as NotCome).isOfBefore, asked.times]).toEqual([isReplaced, 2]);
    expect((problem as NotCome).cause).toBeInstanceOf(TypeError);
  }
});
