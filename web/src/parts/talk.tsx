import { useInfiniteQuery, useMutation, useQueryClient } from '@tanstack/react-query';
import { ArrowUp } from 'lucide-react';
import { type FormEvent, type KeyboardEvent, type ReactNode, Suspense, useEffect, useRef } from 'react';
import { fieldOf } from '../../node/src/fields';
import { useAct } from '../api/acts';
import { ask, type NodeState, Problem, type Schemas, type SessionView } from '../api/client';
import { useKept } from '../api/kept';
import { useMoment } from '../api/moment';
import { notesOf } from '../api/notes';
import { usePictures, withPictures } from '../api/pictures';
import { type Noted, notedIn, shownAt } from '../api/pointed';
import { takeBack, type Unread, unreadOf, wordsAfter } from '../api/unread';
import { useVersions } from '../api/versions';
import type { Sent } from '../screens/session';
import { AskAgain } from './ask-again';
import { Button } from './button';
import { late } from './late';
import type { Opened } from './looked';
import { type Moments, Noted as NotedWords } from './noted';
import { Said } from './said';

const Looked = late(
  () => import('./looked').then((module) => module.Looked),
  (_, said) => <li>{said}</li>,
);

const SAID = 'talk-said';

/** Whether agents are at work, who read what is said at their next step. */
export function isAtWork(state: NodeState): boolean {
  return Boolean(state.owes ?? state.approval);
}

/** Whether what is said now asks for something to be different. */
export function takesChanges(state: NodeState): boolean {
  return !isAtWork(state) && ['plan', 'preview', 'complete', 'error'].includes(state.phase);
}

/** What was said, and a place to say what should be different: on top, the newest next to it, or as the last there is and always in reach. */
export function Talk({ session, send, busy, refused, opened, open, isBelow = false }: Sent & Opened & { session: SessionView; isBelow?: boolean }) {
  const { state } = session;
  const talk = useInfiniteQuery<Schemas['TalkPage'], Problem, Schemas['SaidView'][], string[], number | null>({
    queryKey: ['talk', session.id],
    initialPageParam: null,
    queryFn: ({ pageParam }) => ask(`/v1/sessions/${session.id}/messages?limit=100${pageParam === null ? '' : `&before=${pageParam}`}`),
    getNextPageParam: (page) => page.next ?? undefined,
    select: ({ pages }) => pages.flatMap(({ messages }) => messages),
  });
  const [words, setWords] = useKept(session.id, 'talk', '');
  const works = isAtWork(state);
  const changes = takesChanges(state);
  const begins = !works && state.phase === 'idle';
  const versions = useVersions(session.id);
  const show = useMoment();
  /** What shows what was pointed at by something that was said then. */
  const pointing = (said: string): Moments => {
    const version = shownAt(versions, said);
    return {
      go: (at) => {
        show(version, at);
        document.querySelector('.stays')?.scrollIntoView({ block: 'nearest' });
      },
      frameOf: (frame) => version && `/v1/sessions/${session.id}/jobs/${version.jobId}/frames/${frame}.jpg?w=192`,
    };
  };
  const field = useRef<HTMLTextAreaElement>(null);
  const heading = useRef<HTMLHeadingElement>(null);
  const isStuck = state.phase === 'error' && !isAtWork(state) && state.error?.canRetry === false;
  useEffect(() => {
    // all that is left to do is to say something; whoever is elsewhere by now stays there
    if (isStuck && document.activeElement === document.body) field.current?.focus({ preventScroll: true });
  }, [isStuck]);
  const say = async (event?: FormEvent) => {
    event?.preventDefault();
    if (!words.trim() || busy) return;
    const sent = await (changes ? send('changes', { feedback: words }) : send('messages', { text: words }));
    if (sent) setWords((now) => (now === words ? '' : now)); // what was typed since stays
  };
  useAct((works || changes || begins) && (changes ? 'Change something' : begins ? 'Say what should move' : 'Say something'), () => field.current?.focus());
  const client = useQueryClient();
  const taking = useMutation<unknown, Problem, Unread>({
    mutationFn: (unread) => takeBack(session, unread),
    onSuccess: (_, unread) => {
      setWords((now) => wordsAfter(now, unread));
      notesOf(session.id).giveBack(unread.notes ?? []);
      (field.current ?? heading.current)?.focus({ preventScroll: true }); // its button goes
    },
    onSettled: () => client.invalidateQueries({ queryKey: ['session', session.id] }),
  });
  const keys = (event: KeyboardEvent) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) void say();
  };
  const said = (talk.data ?? []).filter((each) => each.content.trim());
  const pictures = usePictures(session.id);
  const told = withPictures(said, pictures.data ?? [], talk.hasNextPage ? (talk.data?.at(-1)?.seq ?? 0) : 0);
  const older = talk.hasNextPage && (
    <li key="older">
      <Button
        kind="quiet"
        className="-ml-3 text-sm"
        aria-disabled={talk.isFetchingNextPage}
        onClick={() =>
          talk.isFetchingNextPage ||
          void talk.fetchNextPage().then(({ hasNextPage, isError }) => hasNextPage || isError || heading.current?.focus({ preventScroll: true })) // its button goes
        }
      >
        Show older
      </Button>
    </li>
  );
  const form = (works || changes || begins) && (
    <form
      onSubmit={(event) => void say(event)}
      className="card flex items-end gap-2 p-2 focus-within:border-accent"
    >
      <textarea
        ref={field}
        aria-label={changes ? 'What should be different' : 'Say something'}
        rows={isBelow ? 1 : 2}
        className="block field-sizing-content max-h-40 w-full resize-none rounded-xl bg-transparent px-2.5 py-2 outline-none placeholder:text-muted"
        placeholder={changes ? 'What should be different?' : begins ? 'What should move?' : 'Read at the next step…'}
        value={words}
        onChange={(event) => setWords(event.target.value)}
        onKeyDown={keys}
        aria-invalid={['feedback', 'text'].some((name) => fieldOf(refused?.problem, name) !== undefined)}
        aria-describedby={refused && SAID}
      />
      <Button kind="main" type="submit" disabled={busy || !words.trim()} aria-label="Send" title="Ctrl+Enter" className="px-2.5">
        <ArrowUp aria-hidden className="size-5" />
      </Button>
    </form>
  );
  const prompt = <Line who="You" words={state.prompt} />;
  const list = (
    <ol className="space-y-4">
      {isBelow && prompt}
      {isBelow && older}
      {(isBelow ? told.toReversed() : told).map((each) =>
        'pictures' in each ? (
          <Suspense key={each.seq} fallback={null}>
            <Looked pictures={each.pictures} opened={opened} open={open} />
          </Suspense>
        ) : (
          <Line
            key={each.seq}
            who={each.role === 'user' ? 'You' : 'koda'}
            words={each.content}
            asked={each.asked ?? undefined}
            noted={each.role === 'user' ? notedIn(state, each.content) : undefined}
            {...pointing(each.at)}
          />
        ),
      )}
      {!isBelow && older}
      {!isBelow && prompt}
    </ol>
  );
  const answer = <Said problem={refused?.problem} id={SAID} />;
  const notTaken = <Said problem={taking.error} />;
  const unread = unreadOf(state);
  const waiting = unread.length > 0 && (
    <ol className="space-y-4" aria-label="Not read yet">
      {(isBelow ? unread : unread.toReversed()).map(({ said: each, isFree }) => (
        <Line key={each.id} who={isFree ? 'You, not read yet' : 'You, read next'} words={each.told} noted={notedOf(each)} {...pointing(each.at)} wordsId={`said-${each.id}`}>
          {isFree && (
            <button
              type="button"
              className="mt-1 min-h-6 text-muted underline underline-offset-4 hover:text-text disabled:opacity-50"
              aria-describedby={`said-${each.id}`}
              disabled={taking.isPending}
              onClick={() => taking.mutate(each)}
            >
              Take back
            </button>
          )}
        </Line>
      ))}
    </ol>
  );
  return (
    <section className={isBelow ? 'contents' : 'space-y-4'} aria-labelledby="talk">
      <h2 ref={heading} id="talk" tabIndex={-1} className="sr-only">
        Talk
      </h2>
      {!isBelow && form && <div className={works ? 'sticky top-0 z-1 bg-ground pb-3' : ''}>{form}</div>}
      {!isBelow && answer}
      {!isBelow && waiting}
      {!isBelow && notTaken}
      <AskAgain what="What was said" found={talk} />
      <AskAgain what="What was looked at" found={pictures} />
      {list}
      {isBelow && waiting}
      {isBelow && notTaken}
      {isBelow && (form || refused) && (
        <div ref={staysBelow} className="sticky bottom-0 z-10 -mx-4 space-y-2 bg-ground px-4 pt-1 pb-2 sm:-mx-6 sm:px-6">
          {answer}
          {form}
        </div>
      )}
    </section>
  );
}

/** Say how high something is that stays at the screen's bottom: nothing that is come to lies beneath. */
function staysBelow(box: HTMLDivElement): () => void {
  const { style } = document.documentElement;
  const watching = new ResizeObserver(() => style.setProperty('--below', `${box.offsetHeight}px`));
  watching.observe(box);
  return () => {
    watching.disconnect();
    style.removeProperty('--below');
  };
}

interface LineProps {
  who: string;
  words: string;
  wordsId?: string;
  /** The question that is answered. */
  asked?: string | undefined;
  /** What the words were made of, where somebody pointed. */
  noted?: Noted | undefined;
  children?: ReactNode;
}

function Line({ who, words, wordsId, asked, noted, go, frameOf, children }: LineProps & Partial<Moments>) {
  return (
    <li className="text-sm">
      <p className="text-muted">{who}</p>
      {asked && (
        <blockquote aria-label="What koda asked" className="mt-1 border-l-2 border-line-strong pl-2.5 text-muted wrap-anywhere whitespace-pre-wrap">
          {asked}
        </blockquote>
      )}
      {noted && go && frameOf ? (
        <div id={wordsId} className="mt-0.5">
          <NotedWords said={noted} go={go} frameOf={frameOf} />
        </div>
      ) : (
        <p id={wordsId} className="mt-0.5 leading-relaxed wrap-anywhere whitespace-pre-wrap">
          {words}
        </p>
      )}
      {children}
    </li>
  );
}

function notedOf({ words = '', notes = [] }: Unread): Noted | undefined {
  return notes.length > 0 ? { words, notes } : undefined;
}
