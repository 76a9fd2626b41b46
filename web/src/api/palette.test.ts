import { expect, test } from 'vitest';
import { coloursOfPicture, coloursOfTheme, wordsFor } from './palette';

const THEME = `export const theme: Theme = {
  name: 'sunshine',
  ground: { top: '#FFE07A', bottom: '#FFBF3F', glow: '#FFF3BF' },
  ink: '#2A1A5E',
  accent: '#ff4d6d',
  colours: ['#ff4d6d', '#4361EE', '#FF4D6D', "#06B48F"],
};`;

function picture(...parts: [count: number, colour: [number, number, number]][]): number[] {
  return parts.flatMap(([count, colour]) => Array.from({ length: count }, () => [...colour, 255]).flat());
}

test('a theme names its ground and its colours, each once', () => {
  expect(coloursOfTheme(THEME)).toEqual({ ground: '#FFD05D', others: ['#FF4D6D', '#4361EE', '#06B48F'] });
  expect(coloursOfTheme('export const sizes = [1, 2]')).toBeUndefined();
});

test('in a picture the ground is what most of it has, and what stands out is seen', () => {
  const found = coloursOfPicture(picture([800, [20, 20, 30]], [150, [220, 40, 40]], [40, [40, 60, 230]], [9, [24, 24, 34]], [1, [0, 255, 0]]));
  expect(found).toEqual({ ground: '#14141E', others: ['#DC2828', '#283CE6'] });
  expect(coloursOfPicture(picture([10, [255, 255, 255]]))).toEqual({ ground: '#FFFFFF', others: [] });
  expect(coloursOfPicture([])).toBeUndefined();
});

test('the words have no commas, which would make a list of the colours', () => {
  expect(wordsFor({ ground: '#FFD05D', others: ['#FF4D6D', '#4361EE'] }, 'version 1')).toBe('Take the colours of version 1: #FF4D6D #4361EE on a #FFD05D background.');
  expect(wordsFor({ ground: '#FFFFFF', others: [] }, 'take 2')).toBe('Take the colours of take 2: on a #FFFFFF background.');
});
