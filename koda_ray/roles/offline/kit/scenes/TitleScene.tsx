// The title and what surrounds it. Its words are here, its motion in src/theatre/state.json.
import { Title, type TitleProps } from '../components/Title';

const title: TitleProps = __TITLE__;

export function TitleScene() {
  return <Title {...title} />;
}
