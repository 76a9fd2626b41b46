// What the project's files get for '@react-three/fiber': the package, with a Canvas on the page's clock.
export * from '@react-three/fiber';
export { Canvas } from './Canvas';
