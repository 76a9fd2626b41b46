import { expect, test } from 'vitest';
import { drafted, lengthOf } from './drafted';

const scene = (number: number, title: string, duration: number) => ({ number, title, duration, description: `It is ${title}`, animationNotes: '' });
const SCENES = [scene(1, 'Drop in', 1.5), scene(2, 'Bounce', 2), scene(3, 'Rest', 1.5)];

test('scenes are shown as they are typed, in their new order and under their new numbers', () => {
  const typed = [
    { scene: 3, title: 'Rest', duration: '1.5' },
    { scene: 1, title: 'Fall', duration: '2,5' },
  ];
  expect(drafted(SCENES, typed)).toEqual([
    { ...scene(1, 'Rest', 1.5) },
    { ...scene(2, 'Fall', 2.5), description: 'It is Drop in' },
  ]);
});

test('a length that is none yet leaves the one there was, and a scene that is not there any more is left out', () => {
  for (const duration of ['', 'soon', '0', '-1', 'Infinity']) expect(drafted(SCENES, [{ scene: 2, title: '', duration }])).toEqual([{ ...scene(1, '', 2), description: 'It is Bounce' }]);
  expect(drafted(SCENES, [{ scene: 9, title: 'Gone', duration: '1' }])).toEqual([]);
  expect(lengthOf({ scene: 1, title: '', duration: '0,25' })).toBe(0.25);
});
