import { Pause, Play } from 'lucide-react';
import { type CSSProperties, useState } from 'react';
import { wantsRest } from '../api/motion';

interface Props {
  src: string;
  /** A frame of it. */
  still: string;
  wide: number;
  gone: () => void;
}

/** A finished gif: browsers show it as a picture, which moves until somebody has it rest; by itself only where motion is wanted. */
export function Gif({ src, still, wide, gone }: Props) {
  const [moves, setMoves] = useState(() => !wantsRest());
  const failed = () =>
    void fetch(src, { method: 'HEAD' }).then(({ status }) => status === 404 && gone(), () => undefined); // prettier-ignore
  return (
    <div className="picture bg-sunken" style={{ '--wide': wide } as CSSProperties}>
      <img src={moves ? src : still} alt={moves ? 'The finished video, a gif' : 'A frame of the finished video'} className="size-full object-contain" onError={failed} />
      <button
        type="button"
        aria-label={moves ? 'Pause the gif' : 'Play the gif'}
        title={moves ? 'Pause' : 'Play'}
        className="absolute bottom-2 left-2 grid size-10 place-items-center rounded-full bg-panel/90 text-text shadow-sm hover:bg-panel"
        onClick={() => setMoves(!moves)}
      >
        {moves ? <Pause aria-hidden className="size-4 fill-current" /> : <Play aria-hidden className="size-4 translate-x-px fill-current" />}
      </button>
    </div>
  );
}
