import { expect, test } from 'vitest';
import type { Problem } from './client';
import { NOTHING_WANTED, optionsOf, rowsOf, zipped } from './own-page';

test('what was said is asked for, and nothing else', () => {
  expect(optionsOf(NOTHING_WANTED)).toEqual({});
  expect(optionsOf({ ...NOTHING_WANTED, preset: '720p', format: 'gif', width: '320', fps: '29.97' })).toEqual({ preset: '720p', format: 'gif', width: 320, fps: 29.97 });
});

test('other options are an object of JSON', () => {
  expect(optionsOf({ ...NOTHING_WANTED, fps: '30', other: ' {"alpha": true, "fps": 10} ' })).toEqual({ alpha: true, fps: 30 });
  expect(() => optionsOf({ ...NOTHING_WANTED, other: '{alpha' })).toThrow('not JSON');
  expect(() => optionsOf({ ...NOTHING_WANTED, other: '[1]' })).toThrow('no JSON object');
});

test('what is wrong before anything is sent is said of its field', () => {
  const wrong = (work: () => unknown) => {
    try {
      work();
    } catch (problem) {
      return (problem as Problem).fields.map(({ field }) => field);
    }
    return [];
  };
  expect(wrong(() => optionsOf({ ...NOTHING_WANTED, other: '{alpha' }))).toEqual(['options']);
  for (const [name, text] of [['a.csv', 'name\nA"da,1\n'], ['a.json', '[{']] as const) expect(wrong(() => rowsOf(name, text))).toEqual(['rows']);
  expect(optionsOf({ ...NOTHING_WANTED, width: 'wide' })).toEqual({ width: 'wide' });
});

test('rows are read of JSON, of its lines and of CSV', () => {
  expect(rowsOf('a.json', '[{"name": "Ada"}]')).toEqual([{ name: 'Ada' }]);
  expect(rowsOf('a.jsonl', '{"name": "Ada"}\n\n{"name": "Bob"}\n')).toEqual([{ name: 'Ada' }, { name: 'Bob' }]);
  expect(rowsOf('a.csv', '\uFEFFname,says\r\nAda,"Hello, ""you""\nthere"\r\nBob,\r\n')).toEqual([
    { name: 'Ada', says: 'Hello, "you"\nthere' },
    { name: 'Bob', says: '' },
  ]);
  expect(() => rowsOf('a.csv', 'name\nAda,1\n')).toThrow('Row 2 has 2 fields');
  expect(() => rowsOf('a.csv', 'name\nA"da,1\n')).toThrow('Row 2 is not CSV');
  expect(() => rowsOf('a.json', '[{')).toThrow('a.json cannot be read');
});

test('a page alone is a zip with the sum of its bytes', async () => {
  const bytes = new Uint8Array(await zipped(new TextEncoder().encode('123456789')).arrayBuffer());
  const view = new DataView(bytes.buffer);
  expect([view.getUint32(0, true), view.getUint32(14, true), view.getUint32(18, true)]).toEqual([0x04034b50, 0xcbf43926, 9]);
  const end = bytes.length - 22;
  expect([view.getUint32(end, true), view.getUint32(view.getUint32(end + 16, true), true)]).toEqual([0x06054b50, 0x02014b50]);
});
