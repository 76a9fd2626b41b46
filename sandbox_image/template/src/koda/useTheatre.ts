// The values of a Theatre object at the page's time.
import type { ISheetObject, UnknownShorthandCompoundProps } from '@theatre/core';
import { useMemo, useSyncExternalStore } from 'react';
import { clock } from './clock';
import { mainSheet } from './theatre';

/**
 * Read an object of the main sheet; the component renders again for each frame.
 *
 * `name` is the key under `tracksByObject` and `staticOverrides.byObject` in src/theatre/state.json, and `props` are its
 * properties with the values that they have where the state says nothing:
 * `const { position, opacity } = useTheatre('Ball', { position: { x: 0, y: 0 }, opacity: 1 })`.
 * For booleans, choices, colours and ranges use Theatre's `types`. `props` are read once.
 */
export function useTheatre<Props extends UnknownShorthandCompoundProps>(
  name: string,
  props: Props,
): ISheetObject<Props>['value'] {
  // eslint-disable-next-line react-hooks/exhaustive-deps -- the shape of an object is fixed by its name
  const object = useMemo(() => mainSheet().object(name, props, { reconfigure: true }), [name]);
  useSyncExternalStore(clock.subscribe, clock.revision);
  return object.value;
}
