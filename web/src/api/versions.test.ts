import { describe, expect, it } from 'vitest';
import type { SessionView, VersionView } from './client';
import { beside, isRestored, lines } from './versions';

const versions = [1, 2, 4].map((number) => ({ number, current: number === 2 }) as VersionView);

describe('beside', () => {
  it('goes from what is chosen, or from what the session shows', () => {
    expect(beside(versions, 4, -1)?.number).toBe(2);
    expect(beside(versions, undefined, 1)?.number).toBe(4);
    expect(beside(versions, undefined, -1)?.number).toBe(1);
  });
  it('stops at both ends', () => {
    expect(beside(versions, 4, 1)).toBeUndefined();
    expect(beside(versions, 1, -1)).toBeUndefined();
    expect(beside([], undefined, -1)).toBeUndefined();
  });
  it('begins at the newest where the one that is chosen is gone', () => {
    expect(beside(versions, 9, -1)?.number).toBe(4);
  });
});

describe('isRestored', () => {
  const state = { phase: 'preview', owes: null } as SessionView['state'];
  it('holds while the version that was gone back to is shown', () => {
    expect(isRestored(2, versions, state)).toBe(true);
    expect(isRestored(1, versions, state)).toBe(false);
    expect(isRestored(undefined, versions, state)).toBe(false);
  });
  it('ends with what is asked for next', () => {
    expect(isRestored(2, versions, { ...state, phase: 'executing', owes: 'execute' })).toBe(false);
    expect(isRestored(2, versions, { ...state, owes: 'render_final' })).toBe(false);
    expect(isRestored(2, versions, { ...state, phase: 'complete' })).toBe(false);
  });
});

describe('lines', () => {
  it('tells what came from what went', () => {
    const diff = '--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n same\n-old\n+new';
    expect(lines(diff).map(({ kind }) => kind)).toEqual(['place', 'stays', 'went', 'came']);
  });
});
