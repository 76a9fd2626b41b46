import { expect, test } from 'vitest';
import { animationGeneratorPlugin } from './animation-generator';
import { Registry } from './registry';

const component = () => null;

test('what is registered is found, and nothing else is', () => {
  const registry = new Registry();
  registry.register({ plugin: animationGeneratorPlugin, component });
  expect(registry.get('animation-generator')?.plugin).toBe(animationGeneratorPlugin);
  expect(registry.get('storyboard')).toBeUndefined();
  expect(registry.list()).toHaveLength(1);
});

test('an id is taken once, and each handle has its own', () => {
  const registry = new Registry();
  registry.register({ plugin: animationGeneratorPlugin, component });
  expect(() => registry.register({ plugin: animationGeneratorPlugin, component })).toThrow('registered already');
  const [prompt] = animationGeneratorPlugin.handles.inputs;
  const twice = { ...animationGeneratorPlugin, id: 'twice', handles: { inputs: prompt ? [prompt, prompt] : [], outputs: [] } };
  expect(() => registry.register({ plugin: twice, component })).toThrow('same id: prompt, prompt');
});
