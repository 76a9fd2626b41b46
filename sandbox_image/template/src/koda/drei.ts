// What the project's files get for '@react-three/drei': the package, with the parts replaced that would use a network.
export * from '@react-three/drei';
export { Text } from './Text';
export { Environment } from './PresetEnvironment';
