import { Box, Gauge } from 'lucide-react';
import { useSyncExternalStore } from 'react';
import { Link, useLocation } from 'wouter';
import { isUnderWay, sentOf, type Upload, uploads } from '../api/uploads';
import { Bar } from './bar';

/** Where one can go from everywhere, and what lies below each. */
export const PLACES: [path: string, words: string, below: readonly string[]][] = [
  ['/', 'Sessions', ['/s/', '/t/']],
  ['/c', 'Canvas', ['/c/']],
  ['/renders', 'Renders', ['/renders/']],
  ['/assets', 'Assets', []],
  ['/usage', 'Usage', []],
  ['/sandboxes', 'Sandboxes', ['/sandboxes/']],
];
/** What narrow screens have room for as a sign alone; the narrowest phones have none for the last, to which the one before it leads there. */
const SIGNS: Partial<Record<string, [sign: typeof Gauge, on: string, words: string, place: string]>> = {
  '/usage': [Gauge, 'lg:hidden', 'max-lg:sr-only', ''],
  '/sandboxes': [Box, 'lg:hidden', 'max-lg:sr-only', 'max-[24rem]:hidden'],
};

/** Where one can go from everywhere; what one is at, or below, is marked. */
export function Navigation() {
  const [path] = useLocation();
  const list = useSyncExternalStore(uploads.watch, () => uploads.list);
  const away = list.filter((each) => isUnderWay(each) && each.at !== path);
  return (
    <nav aria-label="Places">
      <ul className="flex flex-wrap items-center sm:gap-1">
        {PLACES.map(([place, words, below]) => {
          const current = path === place ? 'page' : below.some((each) => path.startsWith(each)) ? 'true' : undefined;
          const [Sign, on = '', said = '', where = ''] = SIGNS[place] ?? [];
          const going = away.filter(({ at }) => at === place || below.some((each) => at.startsWith(each)));
          return (
            <li key={place} className={`relative ${where}`}>
              <Link
                href={place}
                aria-current={current}
                className="inline-flex min-h-9 min-w-6 items-center justify-center rounded-lg px-[min(0.5rem,1.2vw)] text-sm text-muted max-[22rem]:px-1 max-[22rem]:text-[0.78125rem] hover:bg-sunken hover:text-text aria-[current]:font-medium aria-[current]:text-text sm:px-2 lg:px-3"
              >
                {Sign && <Sign aria-hidden className={`size-4 ${on}`} />}
                <span className={said}>{words}</span>
              </Link>
              {going.length > 0 && <Going uploads={going} to={words} />}
            </li>
          );
        })}
      </ul>
    </nav>
  );
}

/** Below the place where files were brought, while one is elsewhere: how far they are. */
function Going({ uploads: going, to }: { uploads: readonly Upload[]; to: string }) {
  const [only] = going;
  const what = going.length === 1 && only ? only.name : `${going.length} files`;
  const percent = Math.round(100 * sentOf(going));
  return (
    <Bar
      label={`${to}: sending ${what}`}
      percent={percent}
      className="pointer-events-none absolute inset-x-[min(0.5rem,1.2vw)] bottom-0.5 h-0.5 bg-line sm:inset-x-3"
      waits={percent === 100}
    />
  );
}
