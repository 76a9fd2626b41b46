/** The animation node: the screens of a session in a frame with sockets, wherever it is shown. */
import { useEffect, useId, useRef } from 'react';
import { animationGeneratorPlugin } from './animation-generator';
import { type Given, useSeen } from './context';
import { Idle } from './idle';
import { Button, Said } from './parts';
import type { AnimationData } from './request';
import { Screen } from './screens';
import { mood, type Mood, type NodeSession, phaseWords, statusWords } from './session';

interface Props {
  /** Its node's, so that what is begun in it is begun once, however often it is drawn anew. */
  id?: string;
  data: AnimationData;
  change: (what: Partial<AnimationData>) => void;
  given: readonly Given[];
}

/** The inside of an animation node, without a canvas around it: for lists, and for other frames. */
export function AnimationScreen({ id, data, change, given }: Props) {
  const own = useId();
  const seen = useSeen(data.sessionId);
  if (data.sessionId === undefined) return <Idle id={id ?? own} data={data} change={change} given={given} settings={animationGeneratorPlugin.settings} />;
  if (seen.gone)
    return (
      <div className="koda-screen">
        <p>This animation is not there any more.</p>
        <Button onClick={() => change({ sessionId: undefined })}>Make another one</Button>
      </div>
    );
  if (!seen.session) return <div className="koda-screen">{seen.problem ? <Said problem={seen.problem} /> : <p className="koda-fact">One moment…</p>}</div>;
  return <Screen key={data.sessionId} session={seen.session} seen={seen} />;
}

/** What an animation is called: by its title, else by its first words. */
export function titleOf(session: NodeSession | undefined): string {
  return session?.title ?? session?.state.prompt.split('\n')[0] ?? animationGeneratorPlugin.name;
}

/** Where a node's session is, and whose turn it is. */
export function useWhere(sessionId: string | undefined): { words: string; said: string; mood: Mood; title: string; session: NodeSession | undefined } {
  const { session, gone } = useSeen(sessionId);
  const title = titleOf(session);
  const over = 'Not there any more';
  if (gone) return { words: over, said: over, mood: 'stopped', title, session };
  const where = session?.state ?? { phase: 'idle' as const };
  const words = sessionId !== undefined && !session ? 'One moment' : session ? phaseWords(where) : 'Ready';
  return { words, said: session ? statusWords(session.state) : words, mood: mood(where), title, session };
}

/** Where it is, said aloud once it changes; what it was at first is not news. */
export function PhaseLine({ words, said = words, mood: is, title }: { words: string; said?: string; mood: Mood; title: string }) {
  const first = useRef(said);
  const isNews = useRef(false);
  useEffect(() => {
    if (said !== first.current) isNews.current = true;
  }, [said]);
  return (
    <>
      <span className="koda-phase" data-mood={is}>
        {words}
      </span>
      <span role="status" className="koda-hidden">
        {isNews.current || said !== first.current ? `${title}: ${said}` : ''}
      </span>
    </>
  );
}
