import { expect, test } from 'vitest';
import { Sheets } from './sheets';

const [ONE, OTHER] = [{ href: '/page/one.css' }, { href: '/page/other.css' }];

/** Sheets that come or do not, as `there` says; and a part as a loader brings it that asks for each sheet once. */
function page() {
  const there = new Set<string>();
  const sheets = new Sheets<{ href: string }>(async (link) => {
    if (!there.has(link.href)) throw new Error('404');
  });
  const seen = new Set<string>();
  const partWith = (sheet: { href: string }) =>
    sheets.with(async () => {
      if (!seen.has(sheet.href) && !there.has(sheet.href)) {
        seen.add(sheet.href);
        sheets.lose(sheet);
        throw new Error('Unable to preload CSS');
      }
      return 'the part';
    });
  return { there, partWith };
}

test('a part comes with the style sheet that did not come at first', async () => {
  const { there, partWith } = page();
  const load = partWith(ONE);
  await expect(load()).rejects.toThrow('preload');
  await expect(load()).rejects.toThrow('/page/one.css did not come'); // not without it
  there.add(ONE.href);
  await expect(load()).resolves.toBe('the part');
});

test("another part's style sheet is none of its own", async () => {
  const { there, partWith } = page();
  await expect(partWith(ONE)()).rejects.toThrow();
  there.add(OTHER.href);
  await expect(partWith(OTHER)()).resolves.toBe('the part');
});
