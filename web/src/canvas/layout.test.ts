import { expect, test } from 'vitest';
import { edgeOf, freePlace, type KeptNode, type Layout, ordered, read, written } from './layout';

const node = (id: string, x = 0, y = 0, data: KeptNode['data'] = { plugin: 'prompt', text: id }): KeptNode => ({ id, position: { x, y }, data });
const joint = (source: string, target: string) => edgeOf({ source, sourceHandle: 'text', target, targetHandle: 'prompt' });
const kept = (parts: object) => JSON.stringify({ version: 1, name: 'Mine', changedAt: 5, nodes: [], edges: [], ...parts });

test('what is written is read as it was', () => {
  const film = node('film', 400, 0, {
    plugin: 'animation-generator',
    sessionId: 'ses_1',
    prompt: 'A ball',
    settings: { 'options.duration': 3 },
    collapsed: true,
    sent: { asked: 'A', key: 'k', body: { prompt: 'A ball' } },
  });
  const logo = node('logo', 0, 300, { plugin: 'asset', asset: { id: 'ast_1', name: 'logo.png', mediaType: 'image/png' } });
  const layout: Layout = {
    name: 'Mine',
    changedAt: 5,
    nodes: [node('words', -20.5), { ...film, width: 500 }, logo],
    edges: [joint('words', 'film')],
    view: { x: 1, y: -2, zoom: 0.75 },
  };
  expect(read(written(layout))).toEqual({ layout, lost: 'nothing' });
});

test('what cannot be read is an empty canvas, and that is said', () => {
  for (const text of ['', '{', 'null', '[]', '"words"', '{"nodes":[]}', '{"version":2,"nodes":[]}', '{"version":1,"nodes":{}}', kept({ nodes: [5, {}] })]) {
    const { layout, lost } = read(text);
    expect([layout.nodes, layout.edges, lost], text).toEqual([[], [], 'all']);
  }
});

test('of what can be read in part the rest is there', () => {
  const broken = [{ id: 'b', position: { x: 'left', y: 0 }, data: { plugin: 'prompt' } }, { id: 'c', position: { x: 0, y: 0 }, data: null }];
  const { layout, lost } = read(kept({ nodes: [node('a'), ...broken], edges: [joint('a', 'b'), 7], view: { x: 0, y: 0, zoom: 0 } }));
  expect(layout.nodes.map(({ id }) => id)).toEqual(['a']);
  expect([layout.edges, layout.view, lost]).toEqual([[], undefined, 'some']);
});

test('what a node holds is what it should be', () => {
  const wrong = { plugin: 'animation-generator', sessionId: 5, prompt: {}, settings: { 'options.fps': 30, 'options.aspect': {} }, collapsed: 'yes', sent: { key: 1 } };
  const { layout } = read(kept({ nodes: [node('film', 0, 0, wrong), node('logo', 0, 0, { plugin: 'asset', asset: { id: 5 } })] }));
  expect(layout.nodes.map(({ data }) => data)).toEqual([
    { plugin: 'animation-generator', sessionId: undefined, prompt: undefined, settings: { 'options.fps': 30 }, collapsed: false, sent: undefined },
    { plugin: 'asset' },
  ]);
});

test('a node of a plugin that is not known is kept as it is', () => {
  const data = { plugin: 'storyboard', shots: [1, { of: 'it' }] };
  expect(read(kept({ nodes: [node('one', 0, 0, data)] })).layout.nodes[0]?.data).toEqual(data);
  for (const plugin of ['constructor', '__proto__', 'toString'])
    expect(read(kept({ nodes: [node('one', 0, 0, { plugin, a: 1 })] })).layout.nodes[0]?.data).toEqual({ plugin, a: 1 });
});

test('nodes come in the order of their edges', () => {
  const nodes = [node('second', 0, 0), node('first', 400, 100), node('words', 800, 200), node('alone', 0, 150)];
  const found = ordered(nodes, [joint('words', 'first'), joint('first', 'second')]);
  expect(found.map(({ id }) => id)).toEqual(['alone', 'words', 'first', 'second']);
  const circle = ordered(nodes.slice(0, 2), [joint('first', 'second'), joint('second', 'first')]);
  expect(circle).toHaveLength(2);
});

test('a new node covers nothing', () => {
  const box = (y: number, x = 0) => ({ x, y, width: 300, height: 100 });
  expect(freePlace(box(0), [])).toEqual({ x: 0, y: 0 });
  expect(freePlace(box(0), [box(400), box(0), box(120)])).toEqual({ x: 0, y: 260 });
  expect(freePlace(box(0), [box(0, 600)])).toEqual({ x: 0, y: 0 });
});
