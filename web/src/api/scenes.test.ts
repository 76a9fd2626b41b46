import { expect, test } from 'vitest';
import { beginnings, isAlike, rows, sceneBeside, standing, until } from './scenes';

const scene = (number: number, title: string, duration: number) => ({ number, title, duration, description: '', animationNotes: '' });
const SCENES = [scene(1, 'Drop in', 1.5), scene(2, 'Bounce', 2), scene(3, 'Rest', 1.5)];

test('how far a scene is made is told by the ids of steps, else by titles', () => {
  const steps = [
    { id: 'v2-setup', label: 'Set up', status: 'done' as const },
    { id: 'v2-scene-1', label: 'Erste Szene', status: 'done' as const },
    { id: 's2', label: 'Second', status: 'active' as const },
    { id: 'x', label: 'Animate: rest', status: 'active' as const },
  ];
  expect(standing(SCENES, steps)).toEqual(['done', 'active', 'active']);
  expect(standing(SCENES, [{ id: 'tasks2', label: 'Other things', status: 'pending' }])).toEqual(['pending', 'pending', 'pending']);
});

test('one goes from scene to scene, backwards first to the beginning of the one that is shown', () => {
  expect(beginnings(SCENES)).toEqual([0, 1.5, 3.5]);
  expect([0, 15, 20, 40].map((frame) => sceneBeside(SCENES, frame, 10, 1))).toEqual([15, 35, 35, undefined]);
  expect([0, 15, 20, 40].map((frame) => sceneBeside(SCENES, frame, 10, -1))).toEqual([undefined, 0, 15, 35]);
});

test('a scene that begins between two frames is reached at its first one, and left from there', () => {
  const scenes = [scene(1, 'One', 1.7), scene(2, 'Two', 1.7), scene(3, 'Three', 1)];
  expect([0, 41, 82].map((frame) => sceneBeside(scenes, frame, 24, 1))).toEqual([41, 82, undefined]);
  expect([82, 81, 41, 0].map((frame) => sceneBeside(scenes, frame, 24, -1))).toEqual([41, 41, 0, undefined]);
});

test('scenes stand in rows with room for each', () => {
  const lengths = (count: number) => rows(Array.from({ length: count }, (_, at) => at)).map((row) => row.length);
  expect([1, 4, 5, 8, 9, 15, 23].map(lengths)).toEqual([[1], [4], [3, 2], [4, 4], [3, 3, 3], [5, 5, 5], [5, 5, 5, 5, 3]]);
});

test('of a longer film the scenes of the first seconds are shown, the last of them cut', () => {
  expect(until(SCENES, 5)).toEqual(SCENES);
  expect(until(SCENES, 3).map(({ title, duration }) => [title, duration])).toEqual([['Drop in', 1.5], ['Bounce', 1.5]]);
  expect(until(SCENES, 1.5).map(({ title }) => title)).toEqual(['Drop in']);
  expect(until([], 3)).toEqual([]);
});

test('two films have the same scenes where titles and times are the same, whatever is said of them', () => {
  const told = SCENES.map(({ number, title, duration }) => ({ number, title, duration }));
  expect(isAlike(SCENES, told)).toBe(true);
  expect(isAlike([], [])).toBe(true);
  expect(isAlike(SCENES, SCENES.slice(1))).toBe(false);
  expect(isAlike(SCENES, [scene(1, 'Drop in', 1.5), scene(2, 'Bounce', 1.5), scene(3, 'Rest', 2)])).toBe(false);
});
