import type { Stretch } from '../api/scenes';

/** The plan's scenes side by side, each as wide as it is long; where something moves, a way to each, and which one is shown. */
export function Scenes({ scenes, time, seek, name = 'Scenes' }: { scenes: readonly Stretch[]; time?: number; seek?: (time: number) => void; name?: string }) {
  let from = 0;
  return (
    <ol className="flex gap-1" aria-label={name}>
      {scenes.map((scene) => {
        const [begins, ends] = [from, (from += scene.duration)];
        const isShown = time !== undefined && time >= begins - 1e-4 && time < ends - 1e-4;
        const inside = (
          <>
            <span className="block truncate font-medium">{scene.title}</span>
            <span className="text-muted tabular-nums">{Number(scene.duration.toFixed(2))} s</span>
          </>
        );
        const look = `block w-full rounded-lg px-2.5 py-1.5 text-left text-xs ${isShown ? 'bg-accent-ground' : 'bg-sunken'}`;
        return (
          <li key={scene.number} className="min-w-0" style={{ flexGrow: scene.duration, flexBasis: 0 }} title={`${scene.title}, ${scene.duration} s`}>
            {seek ? (
              <button type="button" className={`${look} hover:text-accent`} aria-current={isShown || undefined} onClick={() => seek(begins)}>
                {inside}
              </button>
            ) : (
              <div className={look}>{inside}</div>
            )}
          </li>
        );
      })}
    </ol>
  );
}
