import { Check } from 'lucide-react';
import type { CSSProperties } from 'react';
import type { Schemas } from '../api/client';
import { rows, type Scene, type Stand, standing } from '../api/scenes';

interface Props {
  scenes: readonly Scene[];
  todos: readonly Schemas['Todo'][];
  wide: number;
}

/** How a panel is told in one line, where it is too low for more. */
const LOW = '[@container(height<4.5rem)]:flex-row [@container(height<4.5rem)]:items-center [@container(height<4.5rem)]:justify-start [@container(height<4.5rem)]:gap-2 [@container(height<4.5rem)]:py-0';
const LOOKS: Record<Stand, string> = {
  done: 'border-accent/40 bg-accent-ground',
  active: 'border-accent bg-panel',
  pending: 'border-line bg-panel',
};
const SAID: Record<Stand, string> = { done: 'made', active: 'being made', pending: '' };

/** What is planned, where the picture will be: a panel for each scene, as wide as it is long, lit up as scenes are made. */
export function Storyboard({ scenes, todos, wide }: Props) {
  const stands = standing(scenes, todos);
  const isTall = wide < 1;
  const lines = isTall ? scenes.map((scene) => [scene]) : rows(scenes);
  return (
    <div className="picture bg-sunken" style={{ '--wide': wide } as CSSProperties}>
      <div role="list" aria-label="Scenes" className="@container flex size-full flex-col gap-1.5 p-1.5 sm:gap-2 sm:p-2">
        {lines.map((line) => (
          <div key={line[0]?.number} className="flex min-h-0 gap-1.5 sm:gap-2" style={{ flexGrow: isTall ? line[0]?.duration : 1, flexBasis: 0 }}>
            {line.map((scene) => (
              <Panel key={scene.number} scene={scene} stand={stands[scenes.indexOf(scene)] ?? 'pending'} />
            ))}
          </div>
        ))}
      </div>
    </div>
  );
}

function Panel({ scene: { number, title, duration, description }, stand }: { scene: Scene; stand: Stand }) {
  return (
    <div
      role="listitem"
      className={`@container-size flex min-w-[14%] flex-col overflow-hidden rounded-lg border transition-colors duration-500 motion-reduce:transition-none ${LOOKS[stand]}`}
      style={{ flexGrow: duration, flexBasis: 0 }}
      title={description}
    >
      <div className={`flex size-full flex-col justify-between gap-1 p-2 @min-[11rem]:p-3.5 ${LOW}`}>
        <p className="flex items-start justify-between gap-1 text-xs tabular-nums text-muted">
          <span className="text-sm font-light tracking-tight @min-[11rem]:text-3xl @min-[11rem]:leading-none [@container(min-width:14rem)_and_(min-height:13rem)]:text-5xl">{number}</span>
          <span className="flex items-center gap-1">
            {stand === 'done' && <Check aria-hidden className="size-3.5 text-accent" />}
            {stand === 'active' && <span aria-hidden className="breathing size-1.5 rounded-full bg-accent" />}
            <span className="hidden whitespace-nowrap @min-[5.5rem]:inline [@container(height<4.5rem)]:hidden">{Number(duration.toFixed(2))} s</span>
          </span>
        </p>
        <div className="min-h-0">
          <p className="line-clamp-2 text-xs font-medium wrap-anywhere @min-[11rem]:text-base [@container(height<4.5rem)]:line-clamp-1">{title}</p>
          <p className="hidden text-sm text-muted [@container(min-width:11rem)_and_(min-height:8rem)]:line-clamp-3">{description}</p>
          {SAID[stand] && <span className="sr-only">{SAID[stand]}</span>}
        </div>
      </div>
    </div>
  );
}
