import { expect, test } from 'vitest';
import { animationGeneratorPlugin } from './animation-generator';
import type { PluginHandles } from './plugin';
import { connected, type Edge, fits, mayConnect } from './values';

const WORDS: PluginHandles = { inputs: [], outputs: [{ id: 'text', name: 'Words', type: 'text' }] };
const handles = (id: string) => (id.startsWith('words') ? WORDS : id.startsWith('film') ? animationGeneratorPlugin.handles : undefined);
const edge = (source: string, sourceHandle: string, target: string, targetHandle: string): Edge => ({
  id: `${source}.${sourceHandle}-${target}.${targetHandle}`,
  source,
  sourceHandle,
  target,
  targetHandle,
});

test('words go where words go, and media where any media do', () => {
  expect(fits('text', 'text') && fits('video', 'media') && fits('image', 'media') && fits('any', 'video')).toBe(true);
  expect(fits('text', 'media') || fits('video', 'text') || fits('media', 'image')).toBe(false);
});

test('an edge goes from an output into an input that takes it', () => {
  const may = (one: Edge) => mayConnect(one, [], handles);
  expect(may(edge('words', 'text', 'film', 'prompt'))).toBe(true);
  expect(may(edge('film1', 'video', 'film2', 'assets'))).toBe(true);
  expect(may(edge('film1', 'video', 'film2', 'prompt'))).toBe(false);
  expect(may(edge('words', 'text', 'film', 'assets'))).toBe(false);
  expect(may(edge('words', 'sound', 'film', 'prompt'))).toBe(false);
  expect(may(edge('unknown', 'text', 'film', 'prompt'))).toBe(false);
});

test('nothing is made of itself, however far around', () => {
  const there = [edge('film1', 'video', 'film2', 'assets'), edge('film2', 'video', 'film3', 'assets')];
  expect(mayConnect(edge('film3', 'video', 'film1', 'assets'), there, handles)).toBe(false);
  expect(mayConnect(edge('film1', 'video', 'film1', 'assets'), there, handles)).toBe(false);
  expect(mayConnect(edge('film1', 'thumbnail', 'film3', 'assets'), there, handles)).toBe(true);
});

test('an input that takes one thing lets go of what it had, and one that takes many does not', () => {
  const [prompt, , assets] = animationGeneratorPlugin.handles.inputs;
  const one = edge('words1', 'text', 'film', 'prompt');
  const two = edge('words2', 'text', 'film', 'prompt');
  expect(connected([one], two, prompt)).toEqual([two]);
  const [a, b] = [edge('film1', 'video', 'film', 'assets'), edge('film2', 'video', 'film', 'assets')];
  expect(connected([one, a], b, assets)).toEqual([one, a, b]);
  expect(connected([a, b], a, assets)).toEqual([b, a]);
});
