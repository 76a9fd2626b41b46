import { useEffect, useState } from 'react';
import type { Progress } from './hooks';
import { wantsRest } from './motion';

/** So much of a video, in seconds, is there before it is shown: what plays at once would soon wait for more. */
const ENOUGH_S = 1;

interface Watching {
  /** The render whose video is shown as it is made. */
  jobId: string | undefined;
  /** Whether another one could be. */
  offers: boolean;
  begin: () => void;
  /** Its last frame was shown. */
  end: () => void;
  /** Look at something else. */
  leave: () => void;
}

interface Around {
  byItself: boolean;
  standing: string | undefined;
  works: boolean;
}

/** The render that can be watched by now. */
export function watchable(progress: Progress | undefined): string | undefined {
  return progress && progress.percent < 100 && (progress.watchableS ?? 0) >= ENOUGH_S ? progress.jobId : undefined;
}

/**
 * Which render is watched as it is made: one that somebody asked for, or by itself where there is nothing else to see
 * and motion is wanted. What is watched is watched to its end, though the video is there before.
 *
 * @param standing The render whose video there is by now.
 * @param works Whether the session is at work, or else nothing more comes.
 */
export function useWatching(progress: Progress | undefined, { byItself, standing, works }: Around): Watching {
  const [shown, setShown] = useState<string>();
  const [past, setPast] = useState<string>();
  const [ended, setEnded] = useState<string>();
  const running = watchable(progress);
  const begins = byItself && running !== undefined && running !== past && !wantsRest();
  useEffect(() => {
    if (begins) setShown(running);
  }, [begins, running]);
  const isNamed = progress === undefined || progress.jobId === shown;
  const goesOn = shown !== undefined && (shown === standing ? shown !== ended : works && isNamed);
  return {
    jobId: goesOn ? shown : undefined,
    offers: running !== undefined && !(goesOn && shown === running),
    begin: () => setShown(running),
    end: () => setEnded(shown), // until the video is there, its last frame is what there is to see
    leave: () => {
      setPast(shown);
      setShown(undefined);
    },
  };
}
