import { MainScene } from './scenes/MainScene';

export default function App() {
  return <MainScene />;
}
