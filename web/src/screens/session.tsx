import { useMutation, useQueryClient } from '@tanstack/react-query';
import { Moon, Workflow } from 'lucide-react';
import { Suspense, useEffect, useMemo, useRef, useState, useSyncExternalStore } from 'react';
import { Link } from 'wouter';
import { useAct } from '../api/acts';
import { command, type CommandName, isForking, Problem, type SessionView, watchForks } from '../api/client';
import { Drafting } from '../api/drafted';
import { hasFiles, useFile } from '../api/files';
import { useLogin, useSession } from '../api/hooks';
import { notesOf, Pointing } from '../api/notes';
import { KeepsPlace } from '../api/place';
import { useStill } from '../api/reach';
import type { Scene } from '../api/scenes';
import { useChosen, useVersions } from '../api/versions';
import { useAnnounced } from '../parts/announcer';
import { Dialog } from '../parts/dialog';
import { useOffline } from '../parts/director';
import { useReturn } from '../parts/focus';
import { Forked } from '../parts/forked';
import { late } from '../parts/late';
import { useMedia, WIDE } from '../parts/media';
import { useNews } from '../parts/news';
import { OpensThisSession } from '../parts/opens-this-session';
import { Phase } from '../parts/phase';
import { PutOnCanvas } from '../parts/put-on-canvas';
import { Said } from '../parts/said';
import { Stage } from '../parts/stage';
import { isAtWork, takesChanges, Talk } from '../parts/talk';
import { Title, titleOf } from '../parts/title';
import { Tray } from '../parts/tray';
import { Turn } from '../parts/turn';
import { OnlyVersion, Versions } from '../parts/versions';
import { Missing } from './missing';

const Files = late(
  () => import('../parts/files').then((module) => module.Files),
  ({ close }, said) => (
    <Dialog title="Files" close={close}>
      {said}
    </Dialog>
  ),
);

/** While agents work, how far they are and the place to speak to them stay in view, and what was said is scrolled below them. */
const STAYS = 'lg:sticky lg:top-4 lg:flex lg:max-h-[calc(100dvh-6rem)] lg:flex-col lg:self-start';

export type Send = (name: CommandName, body?: object) => Promise<boolean>;

/** Which part of the studio sends something, and is told where it is refused. */
type Place = 'turn' | 'talk' | 'versions' | 'notes';

/** What was refused, of what a part sent last. */
export interface Refused {
  name: CommandName;
  problem: Problem;
}

/** How a part of the studio sends something, and what comes of it. */
export interface Sent {
  send: Send;
  busy: boolean;
  refused: Refused | undefined;
}

/** One animation, from its prompt to its video: the picture on one side, what there is to decide on the other. */
export function Session({ id }: { id: string }) {
  const { data: session, error, progress, thinking, gone } = useSession(id);
  const offline = useOffline();
  const own = useLogin().data?.user;
  const client = useQueryClient();
  const sending = useMutation<unknown, Problem, { session: SessionView; from: Place; name: CommandName; body?: object }>({
    mutationFn: ({ session: at, name, body }) => command(at, name, body),
    onSettled: () => client.invalidateQueries({ queryKey: ['session', id] }),
  });
  const notDone = useStill(sending.error);
  const isBeingForked = useSyncExternalStore(watchForks, () => isForking(id));
  const notes = notesOf(id);
  const [width, height] = [session?.state.plan?.width ?? 1920, session?.state.plan?.height ?? 1080];
  const versions = useVersions(id);
  const [number, choose] = useChosen();
  const chosen = versions.find((each) => each.number === number);
  const isOld = chosen !== undefined && !chosen.current;
  const file = useFile();
  useAct(session && hasFiles(session.state) && 'Look at the files', file.readNewest);
  const canPoint = session !== undefined && !isOld && (takesChanges(session.state) || isAtWork(session.state));
  const pointing = useMemo(() => (canPoint ? { notes, width, height } : undefined), [canPoint, notes, width, height]);
  const [edited, edit] = useState<readonly Scene[]>();
  const [lost, lose] = useState('');
  const [opened, open] = useState<number>();
  const isWide = useMedia(WIDE);
  const isNew = useNews(session?.state, session ? titleOf(session) : '');
  useAnnounced(session?.state);
  useReturn(sending.isPending);
  const onTop = useOnTop(session !== undefined);
  useEffect(() => {
    window.scrollTo(0, 0);
  }, []);
  if (gone || error?.status === 404) return <Missing what="This session is not there any more." />;
  if (!session) return error ? <Said problem={error} /> : <p className="py-16 text-muted">One moment…</p>;
  const sentFrom = (from: Place): Sent => ({
    send: async (name, body) => {
      if (sending.isPending) return false;
      return sending.mutateAsync({ session, from, name, body }).then(
        () => true,
        () => false,
      );
    },
    busy: sending.isPending,
    refused: notDone && sending.variables?.from === from ? { name: sending.variables.name, problem: notDone } : undefined,
  });
  const noting = sentFrom('notes');
  const { state } = session;
  const tray = <Tray notes={notes} {...noting} send={(told) => noting.send(takesChanges(state) ? 'changes' : 'messages', { notes: told })} />;
  return (
    <>
      <title>{`${isNew ? '● ' : ''}${titleOf(session).slice(0, 60)} · koda`}</title>
      <div className="flex flex-wrap items-center gap-x-5 gap-y-1 pb-3 lg:flex-nowrap lg:pb-4">
        <Title session={session}>
          <PutOnCanvas
            sessionId={id}
            title={titleOf(session)}
            label="Put on a canvas"
            className="grid size-8 shrink-0 place-items-center rounded-lg text-muted hover:bg-sunken hover:text-text"
          >
            <Workflow aria-hidden className="size-4" />
          </PutOnCanvas>
          <OpensThisSession session={session} />
          {versions.length === 1 && versions[0] && (
            <OnlyVersion version={versions[0]} isOpen={chosen !== undefined} toggle={() => choose(chosen ? undefined : versions[0]?.number)} />
          )}
        </Title>
        <p className="flex max-w-full items-center gap-x-4 text-sm whitespace-nowrap text-muted max-lg:flex-wrap lg:ml-auto lg:shrink-0">
          <Phase state={state} />
          {session.status === 'suspended' && (
            <span className="inline-flex items-center gap-1.5" title="Nothing runs; whatever you do wakes it">
              <Moon aria-hidden className="size-3.5" /> Asleep, as you left it
            </span>
          )}
          <Forked from={state.forkedFrom} title={session.forkedTitle} className="max-w-full truncate lg:max-w-64">
            {(title) => (
              <Link href={`/s/${state.forkedFrom}`} title={title} className="text-accent underline underline-offset-4">
                {title}
              </Link>
            )}
          </Forked>
          {own !== undefined && session.projectId !== own && (
            <Link href={`/?project=${encodeURIComponent(session.projectId)}`} title="All of this project" className="max-w-full truncate text-accent underline underline-offset-4 lg:max-w-48">
              In {session.projectId}
            </Link>
          )}
          {state.group && (
            <Link href={`/t/${state.group}`} className="text-accent underline underline-offset-4">
              Take {state.options?.take}, beside the others
            </Link>
          )}
          {offline && (
            <span className="truncate" title="No model is connected: it knows certain subjects and does not understand everything">
              By the built-in director<span className="max-xl:sr-only">: no model is connected</span>
            </span>
          )}
        </p>
      </div>
      <div className="flex flex-col gap-x-6 gap-y-5 lg:grid lg:grid-cols-[minmax(0,1fr)_clamp(20rem,30vw,27rem)] lg:grid-rows-[auto_1fr] xl:gap-x-10">
        <div ref={onTop} className="stays min-w-0 max-lg:-mx-4 max-lg:px-4 sm:max-lg:-mx-6 sm:max-lg:px-6">
          <Pointing value={pointing}>
            <KeepsPlace value>
              <Stage
                session={session}
                progress={progress}
                thinking={thinking}
                version={isOld ? chosen : undefined}
                versions={versions}
                edited={edited}
                gone={lost}
                setGone={lose}
              />
            </KeepsPlace>
          </Pointing>
        </div>
        <div className={`min-w-0 space-y-5 lg:col-start-2 lg:row-span-2 lg:row-start-1 ${state.owes ? STAYS : ''}`}>
          {isWide && tray}
          <div className={state.owes ? 'lg:max-h-[60dvh] lg:shrink-0 lg:overflow-y-auto' : ''}>
            <Drafting value={edit}>
              <Turn session={session} progress={progress} thinking={thinking} lost={lost} lookAtFiles={file.readNewest} {...sentFrom('turn')} />
            </Drafting>
          </div>
          {isWide && (
            <div className={state.owes ? '-mx-1 min-h-0 overflow-y-auto px-1' : ''}>
              <Talk session={session} opened={opened} open={open} {...sentFrom('talk')} />
            </div>
          )}
        </div>
        <div className="min-w-0 space-y-5">
          <Versions session={session} versions={versions} chosen={chosen} choose={choose} lookAtFiles={() => file.read('')} {...sentFrom('versions')} />
          <p role="status" className={isBeingForked ? 'text-sm text-muted' : 'sr-only'}>
            {isBeingForked && 'Another session is being made from here. It opens as soon as it is there.'}
          </p>
          {!isWide && tray}
        </div>
        {!isWide && <Talk session={session} opened={opened} open={open} {...sentFrom('talk')} isBelow />}
      </div>
      {file.path !== undefined && (number === undefined || chosen) && (
        <Suspense fallback={null}>
          <Files session={session} version={chosen} path={file.path} read={file.read} close={file.close} />
        </Suspense>
      )}
    </>
  );
}

/** What stays on top while the rest is scrolled below it: what the keyboard comes to is never beneath, nor beneath what stays below (`Talk`). */
function useOnTop(isThere: boolean) {
  const found = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const root = document.documentElement;
    const measured = () => {
      const box = found.current;
      const stays = box !== null && getComputedStyle(box).position === 'sticky';
      root.style.scrollPaddingBlock = stays ? `${box.offsetHeight + 8}px calc(var(--below, 0px) + 0.5rem)` : '';
    };
    const watching = new ResizeObserver(measured);
    watching.observe(root);
    if (found.current) watching.observe(found.current);
    return () => {
      watching.disconnect();
      root.style.scrollPaddingBlock = '';
    };
  }, [isThere]);
  return found;
}
