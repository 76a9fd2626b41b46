import { Link, useLocation } from 'wouter';

const PLACES: [path: string, words: string, below: readonly string[]][] = [
  ['/', 'Sessions', ['/s/', '/t/']],
  ['/c', 'Canvas', ['/c/']],
  ['/renders', 'Renders', []],
  ['/assets', 'Assets', []],
];

/** Where one can go from everywhere; what one is at, or below, is marked. */
export function Navigation() {
  const [path] = useLocation();
  return (
    <nav aria-label="Places">
      <ul className="flex flex-wrap items-center sm:gap-1">
        {PLACES.map(([place, words, below]) => {
          const current = path === place ? 'page' : below.some((each) => path.startsWith(each)) ? 'true' : undefined;
          return (
            <li key={place}>
              <Link
                href={place}
                aria-current={current}
                className="inline-flex min-h-9 items-center rounded-lg px-[min(0.5rem,1.2vw)] text-sm text-muted hover:bg-sunken hover:text-text aria-[current]:font-medium aria-[current]:text-text sm:px-3"
              >
                {words}
              </Link>
            </li>
          );
        })}
      </ul>
    </nav>
  );
}
