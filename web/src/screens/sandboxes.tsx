import { Box as BoxSign } from 'lucide-react';
import { useState } from 'react';
import { useMinutes } from '../api/minutes';
import { nameOf, useBoxes, useImages } from '../api/sandboxes';
import { Images } from '../parts/box-images';
import { BoxRow } from '../parts/box-row';
import { NewBox } from '../parts/new-box';
import { Said } from '../parts/said';
import { Server } from '../parts/server';

/** A person's own sandboxes, what they begin as, and what the server does. It is read when somebody comes, or comes back. */
export function Sandboxes() {
  const [all, setAll] = useState(false);
  const [said, say] = useState('');
  const boxes = useBoxes(all);
  const images = useImages();
  const now = useMinutes();
  return (
    <>
      <title>Sandboxes · koda</title>
      <div className="flex flex-wrap items-center gap-x-6 gap-y-3 pt-2">
        <div className="mr-auto min-w-0">
          <h1 tabIndex={-1} className="w-fit text-xl font-semibold tracking-tight sm:text-2xl">
            Sandboxes
          </h1>
          <p className="mt-1 text-sm text-muted">Places of your own, apart from your animations, where a project is changed, built and run.</p>
        </div>
        <NewBox />
      </div>
      <p role="status" className="sr-only">
        {said}
      </p>
      <div className="mt-5 grid items-start gap-6 lg:grid-cols-[minmax(0,2fr)_minmax(18rem,1fr)]">
        <section aria-label="Your sandboxes" className="min-w-0 space-y-3">
          <Said problem={boxes.error} />
          {!boxes.data && !boxes.error && <p className="py-16 text-muted">One moment…</p>}
          {boxes.data?.length === 0 && (
            <div className="rounded-2xl border-2 border-dashed border-line px-6 py-16 text-center">
              <BoxSign aria-hidden className="mx-auto size-7 text-muted opacity-60" />
              <p className="mt-4 font-medium">You have no sandbox</p>
              <p className="mt-1 text-sm text-muted">Animations have theirs by themselves. Make one to work on a project by hand.</p>
            </div>
          )}
          {boxes.data && boxes.data.length > 0 && (
            <ul aria-label="Sandboxes" className={`space-y-3 transition-opacity motion-reduce:transition-none ${boxes.isPlaceholderData ? 'opacity-60' : ''}`} aria-busy={boxes.isPlaceholderData}>
              {boxes.data.map((each) => {
                const name = nameOf(each, images.data);
                return <BoxRow key={each.id} box={each} name={name} now={now} ended={() => say(`${name} has ended`)} />;
              })}
            </ul>
          )}
          <label className="flex min-h-8 w-fit items-center gap-2.5 text-sm text-muted">
            <input type="checkbox" className="size-4 accent-(--accent)" checked={all} onChange={({ target }) => setAll(target.checked)} />
            Those that are over, too
          </label>
        </section>
        <div className="min-w-0 space-y-6">
          <Images now={now} say={say} />
          <Server />
        </div>
      </div>
    </>
  );
}
