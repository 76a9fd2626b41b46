import { mood, phaseWords, type Where } from '../../node/src/session';

export { mood, phaseWords };

const COLOURS = { works: 'text-muted', waits: 'text-accent', finished: 'text-good', stopped: 'text-bad', rests: 'text-muted' };

export function Phase({ state }: { state: Where }) {
  const is = mood(state);
  return (
    <span className={`inline-flex items-center gap-2 text-sm ${COLOURS[is]}`}>
      <span aria-hidden className={`size-1.5 rounded-full bg-current ${is === 'works' ? 'breathing' : ''}`} />
      {phaseWords(state)}
    </span>
  );
}
