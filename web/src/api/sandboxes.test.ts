import { expect, test } from 'vitest';
import { addressOf, askedOf, AS_USUAL, type Box, boxFileAddress, buildWords, endsWords, type Image, nameOf, pathIn, placeOf, processWords, spanWords, whyNot } from './sandboxes';

const NOW = Date.parse('2026-01-01T12:00:00Z');
const BOX: Box = {
  id: 'sbx_0190aaaa-4f2a1c',
  imageId: null,
  provider: 'local',
  host: 'this machine',
  state: 'running',
  network: false,
  createdAt: '2026-01-01T11:00:00Z',
  expiresAt: '2026-01-01T15:10:00Z',
  unusedS: null,
  ended: null,
};
const IMAGE = { id: 'img_1', name: 'notes' } as Image;

test('only what was chosen is asked for', () => {
  expect(askedOf(AS_USUAL)).toEqual({});
  expect(askedOf({ image: 'img_1', provider: 'docker', lifetime: '3600', network: true })).toEqual({ image: 'img_1', provider: 'docker', lifetimeS: 3600, network: true });
});

test('a sandbox is called what it began as', () => {
  expect(nameOf(BOX, undefined)).toBe('Animation template 4f2a1c');
  expect(nameOf({ ...BOX, imageId: 'img_1' }, [IMAGE])).toBe('notes 4f2a1c');
  expect(nameOf({ ...BOX, imageId: 'img_2' }, [IMAGE])).toBe('An image 4f2a1c');
});

test('when it ends is said, and why it cannot be used', () => {
  expect(endsWords(BOX, NOW)).toBe('ends in 3 hours');
  expect(endsWords({ ...BOX, unusedS: 600 }, NOW)).toBe('ends in 3 hours, or 10 minutes after its last use');
  expect(endsWords({ ...BOX, state: 'gone' }, NOW)).toBe('');
  expect([20, 65, 1800, 3600, 86_400].map(spanWords)).toEqual(['less than a minute', 'a minute', '30 minutes', 'an hour', '24 hours']);
  expect(whyNot(BOX)).toBeUndefined();
  expect(whyNot({ ...BOX, state: 'elsewhere' })).toBe('It is at this machine, and is used and ended there.');
  expect(whyNot({ ...BOX, state: 'gone', ended: 'its time was over' })).toBe('It is over: its time was over.');
});

test('what came of a process and of a build is said', () => {
  expect(processWords({ state: 'running', exitCode: null })).toBe('Running');
  expect(processWords({ state: 'ended', exitCode: 0 })).toBe('Ended with 0');
  expect(processWords({ state: 'lost', exitCode: null })).toBe('Ended, nobody knows how');
  const files = [{ path: 'index.html', type: 'file' as const, sizeBytes: 2000 }];
  expect(buildWords({ ok: true, files, problems: [], durationS: 1.26 })).toBe('Built in 1.3 s: one file, 2 kB.');
  const wrong = { message: 'no such name', file: 'src/App.tsx', line: 3, column: 7 };
  expect(buildWords({ ok: false, files: [], problems: [wrong], durationS: 1 })).toBe('It does not build: one thing is wrong.');
  expect(placeOf(wrong)).toBe('src/App.tsx:3:7');
  expect(placeOf({ message: 'none', file: null, line: null, column: null })).toBe('');
});

test('a path stays a path in an address, whatever it is named', () => {
  expect(boxFileAddress('sbx_1', 'a b/ü?#.txt')).toBe('/v1/sandboxes/sbx_1/files/a%20b/%C3%BC%3F%23.txt');
  expect(addressOf('sbx_1', 'processes', 'web')).toBe('/v1/sandboxes/sbx_1/processes/web');
  expect([pathIn('', 'a.png'), pathIn('.', 'a.png'), pathIn(' /public/ ', 'a.png'), pathIn('./src//x', 'a.png')]).toEqual(['a.png', 'a.png', 'public/a.png', 'src/x/a.png']);
  expect(() => pathIn('src/../../x', 'a.png')).toThrow('leads to');
});
