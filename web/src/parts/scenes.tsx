import type { Schemas } from '../api/client';

/** The plan's scenes side by side, each as wide as it is long. */
export function Scenes({ plan }: { plan: Schemas['Plan'] }) {
  return (
    <ol className="flex gap-1" aria-label="Scenes">
      {plan.scenes.map((scene) => (
        <li
          key={scene.number}
          className="min-w-0 rounded-lg bg-sunken px-2.5 py-1.5 text-xs"
          style={{ flexGrow: scene.duration, flexBasis: 0 }}
          title={`${scene.title}, ${scene.duration} s`}
        >
          <span className="block truncate font-medium">{scene.title}</span>
          <span className="text-muted tabular-nums">{Number(scene.duration.toFixed(2))} s</span>
        </li>
      ))}
    </ol>
  );
}
