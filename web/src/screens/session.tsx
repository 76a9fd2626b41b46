import { useMutation, useQueryClient } from '@tanstack/react-query';
import { Moon, Workflow } from 'lucide-react';
import { useEffect, useMemo } from 'react';
import { Link } from 'wouter';
import { command, type CommandName, Problem, type SessionView } from '../api/client';
import { useSession } from '../api/hooks';
import { notesOf, Pointing } from '../api/notes';
import { useChosen, useVersions } from '../api/versions';
import { useOffline } from '../parts/director';
import { Phase, phaseWords } from '../parts/phase';
import { PutOnCanvas } from '../parts/put-on-canvas';
import { Said } from '../parts/said';
import { Stage } from '../parts/stage';
import { isAtWork, takesChanges, Talk } from '../parts/talk';
import { Title, titleOf } from '../parts/title';
import { Tray } from '../parts/tray';
import { Turn } from '../parts/turn';
import { Versions } from '../parts/versions';
import { Missing } from './missing';

export type Send = (name: CommandName, body?: object) => Promise<boolean>;

/** One animation, from its prompt to its video: the picture on one side, what there is to decide on the other. */
export function Session({ id }: { id: string }) {
  const { data: session, error, progress, thinking, gone } = useSession(id);
  const offline = useOffline();
  const client = useQueryClient();
  const sending = useMutation<unknown, Problem, { session: SessionView; name: CommandName; body?: object }>({
    mutationFn: ({ session: at, name, body }) => command(at, name, body),
    onSettled: () => client.invalidateQueries({ queryKey: ['session', id] }),
  });
  const notes = notesOf(id);
  const [width, height] = [session?.state.plan?.width ?? 1920, session?.state.plan?.height ?? 1080];
  const versions = useVersions(id);
  const [number, choose] = useChosen();
  const chosen = versions.find((each) => each.number === number);
  const isOld = chosen !== undefined && !chosen.current;
  const canPoint = session !== undefined && !isOld && (takesChanges(session.state) || isAtWork(session.state));
  const pointing = useMemo(() => (canPoint ? { notes, width, height } : undefined), [canPoint, notes, width, height]);
  useEffect(() => {
    window.scrollTo(0, 0);
  }, []);
  if (gone || error?.status === 404) return <Missing what="This session is not there any more." />;
  if (!session) return error ? <Said problem={error} /> : <p className="py-16 text-muted">One moment…</p>;
  const send: Send = async (name, body) => {
    if (sending.isPending) return false;
    return sending.mutateAsync({ session, name, body }).then(
      () => true,
      () => false,
    );
  };
  const { state } = session;
  return (
    <>
      <title>{`${titleOf(session).slice(0, 60)} · koda`}</title>
      <p role="status" className="sr-only">
        {phaseWords(state)}
      </p>
      <div className="grid gap-x-10 gap-y-8 pt-2 lg:grid-cols-[minmax(0,1fr)_minmax(22rem,27rem)]">
        <div className="min-w-0 space-y-6">
          <Pointing value={pointing}>
            <Stage session={session} progress={progress} thinking={thinking} version={isOld ? chosen : undefined} />
          </Pointing>
          <Versions session={session} versions={versions} chosen={chosen} choose={choose} send={send} busy={sending.isPending} />
          <Tray notes={notes} send={(told) => send(takesChanges(state) ? 'changes' : 'messages', { notes: told })} busy={sending.isPending} />
          <div>
            <Title session={session} />
            <p className="mt-2 flex flex-wrap items-center gap-x-4 gap-y-1 text-sm text-muted">
              <Phase state={state} />
              {session.status === 'suspended' && (
                <span className="inline-flex items-center gap-1.5" title="Nothing runs; whatever you do wakes it">
                  <Moon aria-hidden className="size-3.5" /> Asleep, as you left it
                </span>
              )}
              {state.group && (
                <Link href={`/t/${state.group}`} className="text-accent underline underline-offset-4">
                  Take {state.options?.take}, beside the others
                </Link>
              )}
              {offline && <span title="It knows certain subjects and does not understand everything">By the built-in director: no model is connected</span>}
              <PutOnCanvas
                sessionId={id}
                title={titleOf(session)}
                label="Put on a canvas"
                className="-mx-2.5 inline-flex min-h-9 items-center gap-2 rounded-lg px-2.5 hover:bg-sunken hover:text-text"
              >
                <Workflow aria-hidden className="size-4" /> Put on a canvas
              </PutOnCanvas>
            </p>
          </div>
        </div>
        <div className="space-y-5">
          <Turn session={session} progress={progress} thinking={thinking} send={send} busy={sending.isPending} />
          <Said problem={sending.error} />
          <Talk session={session} send={send} busy={sending.isPending} />
        </div>
      </div>
    </>
  );
}
