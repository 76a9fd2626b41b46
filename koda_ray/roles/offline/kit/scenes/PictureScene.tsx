// The uploaded picture. How the camera moves over it is in src/theatre/state.json.
import { Picture, type PictureProps } from '../components/Picture';

const picture: PictureProps = __PICTURE__;

export function PictureScene() {
  return <Picture {...picture} />;
}
