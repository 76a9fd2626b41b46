import { describe, expect, it } from 'vitest';
import { LivePage } from './live';
import { PagePair } from './pages';

const ORIGIN = 'https://previews.test';
const HOW = { rate: 1, from: 0, to: 5, loop: true };

interface Order {
  id: number;
  do: string;
  time?: number;
}

/** A page that remembers its orders, and says what it is told to. */
function page() {
  const orders: Order[] = [];
  const frame = { postMessage: (order: Order) => orders.push(order) } as unknown as Window;
  const live = new LivePage(() => frame, ORIGIN, (told) => told());
  const says = (time: number, playing: boolean, id?: number) =>
    live.hear({ source: frame, origin: ORIGIN, data: { koda: 1, type: 'state', id, time, playing } } as unknown as MessageEvent);
  return { live, orders, says };
}

function pair() {
  const [one, other] = [page(), page()];
  const clock = { now: 0 };
  const both = new PagePair(one.live, other.live, 60, () => clock.now);
  both.open();
  return { one, other, both, clock };
}

describe('PagePair', () => {
  it('seeks both to one time', () => {
    const { one, other, both } = pair();
    both.seek(1.5);
    expect([one, other].map(({ orders }) => orders.at(-1))).toEqual([1, 1].map((id) => ({ koda: 1, id, do: 'seek', time: 1.5 })));
  });

  it('lets both play from where the first stands, and the second catch up', () => {
    const { one, other, both, clock } = pair();
    both.play(HOW);
    expect(one.orders.map((each) => each.do)).toEqual(['play']);
    expect(other.orders.map((each) => each.do)).toEqual(['seek', 'play']);
    other.says(0, true, 1);
    one.says(1, true);
    expect(other.orders).toHaveLength(2); // it has just begun
    clock.now = 2000;
    one.says(2, true);
    expect(other.orders.slice(2).map(({ do: what, time }) => [what, time])).toEqual([
      ['seek', 2],
      ['play', undefined],
    ]);
  });

  it('has the second stand where the first stopped', () => {
    const { one, other, both } = pair();
    both.play(HOW);
    other.says(0, true, 1);
    one.says(1, true);
    both.pause();
    one.says(1.25, false);
    expect(other.orders.at(-1)).toMatchObject({ do: 'seek', time: 1.25 });
  });
});
