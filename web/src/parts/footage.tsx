import { Pause, Play } from 'lucide-react';
import { type CSSProperties, useRef, useState } from 'react';

interface Props {
  jobId: string;
  label: string;
  /** Whose it is, where there are several. */
  of?: string;
  wide: number;
  /** Its last frame is shown. */
  end: () => void;
  /** It cannot be played. */
  leave: () => void;
}

/** A video while it is rendered: what stands of it plays, and where no more does it waits for that. */
export function Footage({ jobId, label, of, wide, end, leave }: Props) {
  const video = useRef<HTMLVideoElement>(null);
  const [plays, setPlays] = useState(true);
  const [waits, setWaits] = useState(true);
  const toggle = () => {
    if (plays) video.current?.pause();
    else void video.current?.play().catch(() => undefined);
    setPlays(!plays);
  };
  return (
    <div className="picture bg-sunken" style={{ '--wide': wide } as CSSProperties}>
      <video
        ref={video}
        className="size-full object-contain"
        src={`/v1/jobs/${jobId}/footage`}
        muted
        playsInline
        aria-label={label}
        // by itself a browser begins once it has enough to play on, and of what is being made that may be all of it
        onCanPlay={({ currentTarget }) => plays && void currentTarget.play().catch(() => setPlays(false))}
        onPlaying={() => setWaits(false)}
        onWaiting={() => setWaits(true)}
        onEnded={end}
        onError={leave}
      />
      <p className="absolute top-2 left-2 max-w-[calc(100%-1rem)] rounded-lg bg-panel px-2.5 py-1 text-sm sm:top-3 sm:left-3">
        {waits && plays ? 'As it is rendered: more is coming' : 'As it is rendered'}
      </p>
      <button
        type="button"
        aria-label={[plays ? 'Pause' : 'Play', of].filter(Boolean).join(' ')}
        title={plays ? 'Pause' : 'Play'}
        className="absolute bottom-2 left-2 grid size-10 place-items-center rounded-full bg-panel/90 text-text shadow-sm hover:bg-panel"
        onClick={toggle}
      >
        {plays ? <Pause aria-hidden className="size-4 fill-current" /> : <Play aria-hidden className="size-4 translate-x-px fill-current" />}
      </button>
    </div>
  );
}
