// Light and reflections without a network: small sets of lights, rendered once into an environment map.
//
// What '@react-three/drei' exports as Environment, whose presets would be fetched from a CDN. Files of the project's own
// (`files`, `map`) and own Lightformers work as there.
import { Environment as DreiEnvironment, Lightformer } from '@react-three/drei';
import { useMemo, type ComponentProps, type ReactNode } from 'react';

type EnvironmentProps = ComponentProps<typeof DreiEnvironment>;

interface Light {
  readonly at: [number, number, number];
  readonly size: [number, number];
  readonly color: string;
  readonly intensity: number;
  readonly form?: 'rect' | 'circle' | 'ring';
}

interface Room {
  readonly background: string;
  readonly lights: readonly Light[];
}

const ROOMS = {
  /** White soft boxes in a grey room: products, glossy surfaces. */
  studio: {
    background: '#3b3f47',
    lights: [
      { at: [0, 6, 0], size: [10, 10], color: '#ffffff', intensity: 2.2 },
      { at: [-7, 2, 3], size: [4, 8], color: '#f4f7ff', intensity: 2.6 },
      { at: [7, 1.5, 2], size: [3, 7], color: '#fff6ec', intensity: 1.8 },
      { at: [0, 2.5, 8], size: [10, 4], color: '#ffffff', intensity: 1.1 },
      { at: [0, 2, -8], size: [12, 3], color: '#ffffff', intensity: 1.2 },
    ],
  },
  /** Even light from everywhere. */
  soft: {
    background: '#b9bec8',
    lights: [
      { at: [0, 8, 0], size: [16, 16], color: '#ffffff', intensity: 1.6 },
      { at: [-8, 3, 4], size: [8, 8], color: '#ffffff', intensity: 0.9 },
      { at: [8, 3, 4], size: [8, 8], color: '#ffffff', intensity: 0.9 },
    ],
  },
  /** A low warm sun against a cool sky. */
  sunset: {
    background: '#6b4a68',
    lights: [
      { at: [-8, 1.2, -2], size: [5, 5], color: '#ff8a3c', intensity: 7, form: 'circle' },
      { at: [0, 7, 0], size: [14, 14], color: '#6d83c9', intensity: 1.1 },
      { at: [7, 2, 4], size: [6, 6], color: '#e26aa8', intensity: 1.1 },
      { at: [-1, 1.5, 9], size: [12, 4], color: '#ffc095', intensity: 1.1 },
    ],
  },
  /** Cool daylight between buildings. */
  city: {
    background: '#56616f',
    lights: [
      { at: [0, 8, 0], size: [6, 16], color: '#dfeaff', intensity: 3.2 },
      { at: [-7, 3, -3], size: [2, 10], color: '#ffffff', intensity: 2 },
      { at: [7, 3, 3], size: [2, 10], color: '#ffe6c4', intensity: 1.6 },
      { at: [0, 2, 9], size: [12, 5], color: '#eef4ff', intensity: 1 },
    ],
  },
  /** Neon in the dark. */
  night: {
    background: '#07080d',
    lights: [
      { at: [-6, 3, 3], size: [1.2, 8], color: '#4c6fff', intensity: 7 },
      { at: [6, 2, 2], size: [1.2, 8], color: '#ff3d9a', intensity: 6 },
      { at: [0, 6, -4], size: [8, 1.2], color: '#35e0d0', intensity: 4 },
      { at: [0, 1, 9], size: [10, 2], color: '#8894c8', intensity: 0.5 },
      { at: [0, 8, 4], size: [6, 6], color: '#ffffff', intensity: 0.4, form: 'ring' },
    ],
  },
} as const satisfies Record<string, Room>;

type RoomName = keyof typeof ROOMS;

// the names that drei knows, so that they can be used as anywhere else
const OTHER_NAMES: Record<string, RoomName> = {
  apartment: 'soft',
  dawn: 'sunset',
  forest: 'soft',
  lobby: 'studio',
  park: 'soft',
  warehouse: 'city',
  neutral: 'soft',
};

interface PresetProps extends Omit<EnvironmentProps, 'preset'> {
  readonly preset?: RoomName | EnvironmentProps['preset'];
  /** How bright, 1 by default. */
  readonly intensity?: number;
}

function roomOf(preset: string | undefined): Room {
  const name = preset ?? 'studio';
  return ROOMS[(name in ROOMS ? name : OTHER_NAMES[name] ?? 'studio') as RoomName];
}

/** An environment map from a preset. Times nothing, loads nothing; rendered once, when it is mounted. */
export function PresetEnvironment({ preset, intensity = 1, ...props }: PresetProps): ReactNode {
  const room = roomOf(preset);
  // drei draws the map again whenever its children are new ones: made at each frame's render, they cost 50 ms a frame
  const lights = useMemo(
    () => [
      <color key="background" attach="background" args={[room.background]} />,
      ...room.lights.map((light: Light) => (
        <Lightformer
          key={light.at.join()}
          form={light.form ?? 'rect'}
          position={light.at}
          scale={[...light.size, 1]}
          color={light.color}
          intensity={light.intensity}
          target={[0, 0, 0]}
        />
      )),
    ],
    [room],
  );
  return (
    <DreiEnvironment resolution={256} frames={1} environmentIntensity={intensity} {...props}>
      {lights}
    </DreiEnvironment>
  );
}

/** drei's Environment, except that a preset comes from this page. */
export function Environment({ preset, ...props }: EnvironmentProps): ReactNode {
  if (props.files || props.map || props.children) return <DreiEnvironment {...props} />;
  return <PresetEnvironment preset={preset} {...props} />;
}
