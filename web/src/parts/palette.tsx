import { useQuery } from '@tanstack/react-query';
import { type KeyboardEvent, type RefObject, useEffect, useId, useLayoutEffect, useState } from 'react';
import { useLocation } from 'wouter';
import { type Act, actsHere, has } from '../api/acts';
import { ask, type Problem, type Schemas } from '../api/client';
import { isHidden } from '../api/deleted';
import { address } from '../api/gallery';
import { FIELD } from './finder';
import { PLACES } from './navigation';
import { phaseWords } from './phase';
import { Said } from './said';

const PAUSE_MS = 150;
const MOST_FOUND = 8;

interface Found extends Act {
  beside?: string;
}

interface Props {
  /** What is typed into, which was there before. */
  input: RefObject<HTMLInputElement | null>;
  typed: string;
  type: (words: string) => void;
  /** Called with what is done once this is left, which it is then. */
  chosen: (one: Act) => void;
}

/** What can be done here, where one can go, and the animations with these words in them: typed for, and chosen by Enter. */
export function Palette({ input, typed, type, chosen }: Props) {
  const [at, setAt] = useState(0);
  const [acts] = useState(actsHere);
  const id = useId();
  const sessions = useFound(typed.trim());
  const places = usePlaces();
  const groups: [name: string, found: readonly Found[]][] = [
    ['Here', acts.filter(({ words }) => has(words, typed))],
    ['Places', places.filter(({ words }) => has(words, typed))],
    ['Animations', sessions.found],
  ];
  const all = groups.flatMap(([, found]) => found);
  const marked = Math.min(at, all.length - 1);
  useLayoutEffect(() => {
    const field = input.current;
    field?.focus();
    field?.setSelectionRange(field.value.length, field.value.length); // one goes on typing
  }, [input]);
  useEffect(() => {
    document.getElementById(`${id}-${marked}`)?.scrollIntoView({ block: 'nearest' });
  }, [id, marked]);
  const choose = (one: Found | undefined) => {
    if (!one) return;
    chosen(one);
    input.current?.closest('dialog')?.close();
  };
  const keys = (event: KeyboardEvent) => {
    const step = event.key === 'ArrowDown' ? 1 : event.key === 'ArrowUp' ? -1 : 0;
    if (step !== 0 && all.length > 0) setAt((marked + step + all.length) % all.length);
    else if (event.key === 'Enter' && !event.nativeEvent.isComposing) choose(all[marked]);
    else return;
    event.preventDefault();
  };
  let place = -1;
  return (
    <>
      <input
        ref={input}
        role="combobox"
        aria-expanded={all.length > 0}
        aria-controls={`${id}-list`}
        aria-autocomplete="list"
        aria-activedescendant={marked >= 0 ? `${id}-${marked}` : undefined}
        {...FIELD}
        value={typed}
        onChange={({ target }) => {
          type(target.value);
          setAt(0);
        }}
        onKeyDown={keys}
      />
      <p role="status" className={all.length > 0 || sessions.isReading ? 'sr-only' : 'py-8 text-center text-sm text-muted'}>
        {sessions.isReading ? '' : all.length > 0 ? `${all.length} found` : `Nothing is called “${typed.trim()}”.`}
      </p>
      <div className="mt-3">
        <Said problem={sessions.problem} />
      </div>
      <div id={`${id}-list`} role="listbox" aria-label="What was found" hidden={all.length === 0} className="-mx-3 max-h-[50dvh] overflow-y-auto">
        {groups.map(
          ([name, found]) =>
            found.length > 0 && (
              <div key={name} role="group" aria-labelledby={`${id}-${name}`} className="pb-2">
                <p id={`${id}-${name}`} role="presentation" className="px-3 py-1.5 text-xs text-muted">
                  {name}
                </p>
                {found.map((one) => {
                  place += 1;
                  const mine = place;
                  return (
                    <div
                      key={`${mine}-${one.words}`}
                      id={`${id}-${mine}`}
                      role="option"
                      aria-selected={mine === marked}
                      className="flex min-h-10 cursor-pointer items-center justify-between gap-3 rounded-xl px-3 py-2 text-sm aria-selected:bg-accent-ground aria-selected:text-accent"
                      onPointerMove={() => setAt(mine)}
                      onClick={() => choose(one)}
                    >
                      <span className="min-w-0 truncate">{one.words}</span>
                      {one.beside && <span className="shrink-0 text-xs text-muted">{one.beside}</span>}
                    </div>
                  );
                })}
              </div>
            ),
        )}
      </div>
    </>
  );
}

/** Where one can go from everywhere. */
function usePlaces(): Found[] {
  const [, go] = useLocation();
  const begin = () => {
    go('/');
    requestAnimationFrame(() => document.querySelector<HTMLElement>('[aria-labelledby="make"] textarea')?.focus());
  };
  return [{ words: 'New animation', act: begin }, ...PLACES.map(([path, words]) => ({ words, act: () => go(path) }))];
}

/**
 * The animations that have what is typed in their titles, prompts or scenes; those that changed last, where nothing is.
 *
 * There are none before that is known: who presses Enter at once opens none that was found for fewer words.
 */
function useFound(typed: string) {
  const [, go] = useLocation();
  const text = useLater(typed);
  const read = useQuery<Schemas['SessionPage'], Problem>({
    queryKey: ['sessions', 'found', text],
    queryFn: ({ signal }) => ask(address({ text, show: 'all' }, { limit: MOST_FOUND }), { signal }),
  });
  const isReading = read.isPending || text !== typed;
  const found = (isReading ? [] : (read.data?.sessions ?? []))
    .filter((each) => !isHidden(each.id))
    .map((each): Found => ({ words: each.title ?? each.prompt, beside: phaseWords(each), act: () => go(`/s/${each.id}`) }));
  return { found, isReading, problem: read.error };
}

/** What was typed, once somebody pauses. */
function useLater(typed: string): string {
  const [later, setLater] = useState(typed);
  useEffect(() => {
    const timer = setTimeout(() => setLater(typed), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [typed]);
  return later;
}
