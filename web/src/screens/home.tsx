import { Composer } from '../parts/composer';
import { Gallery } from '../parts/gallery';

/** Where something new begins, with all that was made before. */
export function Home() {
  return (
    <>
      <title>koda</title>
      <Composer />
      <Gallery />
    </>
  );
}
