import { expect, test } from 'vitest';
import { drafted, draftOf, goneOn, lengthOf } from './drafted';

const scene = (number: number, title: string, duration: number) => ({ number, title, duration, description: `It is ${title}`, animationNotes: '' });
const SCENES = [scene(1, 'Drop in', 1.5), scene(2, 'Bounce', 2), scene(3, 'Rest', 1.5)];

test('scenes are shown as they are typed, in their new order and under their new numbers', () => {
  const typed = [
    { scene: 3, title: 'Rest', duration: '1.5', description: 'It is Rest' },
    { scene: 1, title: 'Fall', duration: '2,5', description: 'Into the rain' },
  ];
  expect(drafted(SCENES, typed)).toEqual([
    { ...scene(1, 'Rest', 1.5) },
    { ...scene(2, 'Fall', 2.5), description: 'Into the rain' },
  ]);
});

test('a length that is none yet leaves the one there was, and a scene that is not there any more is left out', () => {
  for (const duration of ['', 'soon', '0', '-1', 'Infinity']) expect(drafted(SCENES, [{ scene: 2, title: '', duration, description: '' }])).toEqual([{ ...scene(1, '', 2), description: '' }]);
  expect(drafted(SCENES, [{ scene: 9, title: 'Gone', duration: '1', description: '' }])).toEqual([]);
  expect(lengthOf({ duration: '0,25' })).toBe(0.25);
});

test('what was typed before is gone on with, and what it does not have yet is as the plan has it', () => {
  const typed = { scene: 2, title: 'Leap', duration: '3' };
  expect(goneOn(SCENES, [typed, { scene: 9 }])).toEqual([{ ...typed, description: 'It is Bounce' }]);
  expect(goneOn(SCENES, [{ ...typed, description: '' }])).toEqual([{ ...typed, description: '' }]);
  expect(draftOf(scene(1, 'Drop in', 1.333333))).toEqual({ scene: 1, title: 'Drop in', duration: '1.33', description: 'It is Drop in' });
});
