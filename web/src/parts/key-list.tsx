import { useState } from 'react';
import { motion } from '../api/motion';
import { scheme, type Scheme, SCHEMES } from '../api/scheme';
import { Dialog } from './dialog';
import { FIND_KEY, singleKeys } from './keys';
import { notices } from './news';

const KEYS: [group: string, keys: [key: string, does: string][]][] = [
  [
    'On the stage',
    [
      ['Space K', 'Play or pause'],
      ['Enter', 'Stop, and back to where it began'],
      ['J L', 'Backwards, forwards; again: faster'],
      ['← →', 'A frame; with Shift a second'],
      ['↑ ↓', 'The scene before, the next one'],
      ['Home End', 'The beginning, the end'],
      ['I O X', 'Play from here, up to here, all'],
      ['G', 'Go to a time or a frame'],
      ['P N', 'Point at something; note the whole frame'],
      ['S', 'Save the frame as a picture'],
      ['F', 'Full screen'],
    ],
  ],
  [
    'Everywhere else',
    [
      ['1 – 9', 'Choose an answer'],
      ['Enter', 'Send the answer; make what is planned'],
      ['Ctrl Enter', 'Send what you typed'],
      ['[ ]', 'The version before, the next one'],
      ['C', 'Compare two versions; 1 – 4: how'],
      ['B', 'In a comparison by Flip: the other one'],
      ['D', 'Download the video'],
      ['F2 Del', 'Rename, delete the animation one is at'],
      ['Enter C Del', 'On a canvas: choose, connect, remove'],
      [FIND_KEY, 'Find a place, an animation, something to do'],
      ['Ctrl Z', 'Undo that something was deleted'],
      ['Esc', 'Leave what you are in'],
      ['?', 'This list'],
    ],
  ],
];

/** All keys, and switches. */
export function KeyList({ close }: { close: () => void }) {
  const [on, setOn] = useState(singleKeys.on);
  const [tells, setTells] = useState(notices.on);
  const [refused, setRefused] = useState(false);
  const [moves, setMoves] = useState(motion.on);
  const tell = async (wants: boolean) => {
    const does = await notices.set(wants);
    setTells(does);
    setRefused(wants && !does);
  };
  return (
    <Dialog title="Keys" close={close} className="max-w-sm sm:max-w-3xl">
      <div className="mt-3 grid gap-x-10 gap-y-6 sm:grid-cols-2">
        {KEYS.map(([group, keys]) => (
          <section key={group}>
            <h3 className="mb-3 text-sm font-medium">{group}</h3>
            <dl className="grid grid-cols-[auto_1fr] items-baseline gap-x-4 gap-y-2.5 text-sm">
              {keys.map(([key, does]) => (
                <div key={key} className="contents">
                  <dt>
                    <kbd className="rounded-md border border-line px-1.5 py-0.5 font-sans text-xs">{key}</kbd>
                  </dt>
                  <dd className="text-muted">{does}</dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
      </div>
      <label className="mt-5 flex cursor-pointer items-center gap-2.5 border-t border-line pt-4 text-sm">
        <input
          type="checkbox"
          className="size-4 accent-(--accent)"
          checked={on}
          onChange={({ target }) => {
            singleKeys.set(target.checked);
            setOn(target.checked);
          }}
        />
        Single letters and digits are keys
      </label>
      <label className="mt-3 flex cursor-pointer items-center gap-2.5 text-sm">
        <input
          type="checkbox"
          className="size-4 accent-(--accent)"
          checked={moves}
          onChange={({ target }) => {
            motion.set(target.checked);
            setMoves(target.checked);
          }}
        />
        <span>
          Pictures and signs may move by themselves
          {motion.isOffInSystem() && <span className="text-muted">: your system says that nothing shall</span>}
        </span>
      </label>
      {notices.can() && (
        <label className="mt-3 flex cursor-pointer items-center gap-2.5 text-sm">
          <input type="checkbox" className="size-4 accent-(--accent)" checked={tells} onChange={({ target }) => void tell(target.checked)} />
          Tell me on the desktop when something is done or asks
        </label>
      )}
      <Looks />
      <p role="status" className={refused ? 'mt-2 text-sm text-muted' : 'sr-only'}>
        {refused && 'The browser does not let this page do so: its settings for this address decide.'}
      </p>
    </Dialog>
  );
}

const LOOKS: Record<Scheme, string> = { system: 'As the system', light: 'Light', dark: 'Dark' };

function Looks() {
  const [chosen, setChosen] = useState(scheme.now);
  return (
    <fieldset className="mt-4 flex flex-wrap items-center gap-x-5 gap-y-2 text-sm">
      <legend className="sr-only">Light or dark</legend>
      {SCHEMES.map((each) => (
        <label key={each} className="flex min-h-6 cursor-pointer items-center gap-2.5">
          <input
            type="radio"
            name="scheme"
            className="size-4 accent-(--accent)"
            checked={chosen === each}
            onChange={() => {
              scheme.set(each);
              setChosen(each);
            }}
          />
          {LOOKS[each]}
        </label>
      ))}
    </fieldset>
  );
}
