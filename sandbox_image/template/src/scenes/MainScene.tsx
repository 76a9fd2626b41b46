import { Canvas } from '@react-three/fiber';
import { Stage } from '../koda/Stage';
export function MainScene() { return <Stage background="#f00"><Canvas><mesh><sphereGeometry/><meshBasicMaterial color="blue"/></mesh></Canvas></Stage> }
