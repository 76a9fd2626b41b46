import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useEffect, useRef, useState } from 'react';
import { clock } from '../../node/src/clock';
import { Attempt } from '../api/attempt';
import { ask, type Problem, type Schemas, unlessGone } from '../api/client';
import { ago, day } from '../api/dates';
import { useMoment } from '../api/moment';
import { commentWords, useLinks } from '../api/shares';
import { useVersions } from '../api/versions';
import { Button } from './button';
import { Copied } from './copied';
import { Dialog } from './dialog';
import { useDraft } from './draft';
import { Field, useAnswered, useFirstWrong } from './field';
import { Remark } from './remark';
import { Said } from './said';
import { Sure } from './sure';

type ShareView = Schemas['ShareView'];
type ShareCreated = Schemas['ShareCreated'];

const DAY_S = 86_400;
const LASTS: [seconds: number | null, words: string][] = [
  [DAY_S, 'for a day'],
  [7 * DAY_S, 'for a week'],
  [30 * DAY_S, 'for 30 days'],
  [null, 'until I revoke it'],
];

const FIELDS = ['label', 'lastsS'];

interface Props {
  sessionId: string;
  job: string | undefined;
  close: () => void;
}

/** Make a link to a video, and see and revoke those that were made. */
export function Shares({ sessionId, job, close }: Props) {
  const [made, setMade] = useState<ShareCreated>();
  const [again, setAgain] = useState(false);
  return (
    <Dialog title="Share this video" close={close}>
      <p className="mt-1 text-sm text-muted">Whoever has the link sees the video, and nothing else of yours. Watching it starts nothing.</p>
      {made ? (
        <Made
          link={made}
          another={() => {
            setMade(undefined);
            setAgain(true);
          }}
        />
      ) : (
        <Making sessionId={sessionId} job={job} made={setMade} again={again} />
      )}
      <Links sessionId={sessionId} job={job} removed={(id) => made?.id === id && setMade(undefined)} />
    </Dialog>
  );
}

interface MakingProps {
  sessionId: string;
  job: string | undefined;
  made: (link: ShareCreated) => void;
  /** Whether it comes in place of a link that was made, and so of what had the focus. */
  again: boolean;
}

function Making({ sessionId, job, made, again }: MakingProps) {
  const client = useQueryClient();
  const [lasts, setLasts] = useState<number | null>(7 * DAY_S);
  const [comments, setComments] = useState(true);
  const [label, setLabel] = useState('');
  const [attempt] = useState(() => new Attempt());
  const making = useMutation<ShareCreated, Problem>({
    mutationFn: () => {
      const body = { ...(job ? { job } : {}), label, comments, lastsS: lasts };
      return ask(`/v1/sessions/${sessionId}/shares`, { method: 'POST', key: attempt.keyOf(body), body });
    },
    onSettled: (_, problem) => attempt.ended(problem ?? undefined),
    onSuccess: async (link) => {
      made(link);
      await client.invalidateQueries({ queryKey: ['shares', sessionId] });
    },
  });
  const form = useRef<HTMLFormElement>(null);
  useFirstWrong(form, making.error);
  const ends = useAnswered({ problem: making.error, name: 'lastsS', value: lasts });
  const asked = useRef(false); // a double click is one link
  const make = (event: FormEvent) => {
    event.preventDefault();
    if (asked.current) return;
    asked.current = true;
    making.mutate(undefined, { onError: () => (asked.current = false) });
  };
  return (
    <form ref={form} onSubmit={make} className="mt-4 space-y-4">
      <Field
        label={
          <span className="text-sm font-medium">
            Who is it for? <span className="font-normal text-muted">Only you see this.</span>
          </span>
        }
        className="field"
        autoFocus={again}
        problem={making.error}
        name="label"
        value={label}
        set={setLabel}
      />
      <div className="flex flex-wrap items-center gap-x-6 gap-y-3">
        <label className="flex items-center gap-2.5 text-sm">
          It works
          <select
            className="min-h-10 rounded-xl bg-sunken pr-8 pl-3"
            value={String(lasts)}
            onChange={({ target }) => setLasts(LASTS.find(([each]) => String(each) === target.value)?.[0] ?? null)}
            {...ends.marks}
          >
            {LASTS.map(([value, words]) => (
              <option key={words} value={String(value)}>
                {words}
              </option>
            ))}
          </select>
        </label>
        <label className="flex min-h-10 cursor-pointer items-center gap-2.5 text-sm">
          <input
            type="checkbox"
            className="size-4 accent-(--accent)"
            checked={comments}
            onChange={({ target }) => setComments(target.checked)}
          />
          They may comment
        </label>
      </div>
      {ends.words}
      <Said problem={making.error} except={FIELDS} />
      <Button kind="main" type="submit" aria-disabled={making.isPending} className="aria-disabled:opacity-60">
        Make a link
      </Button>
    </form>
  );
}

function Made({ link, another }: { link: ShareCreated; another: () => void }) {
  const group = useRef<HTMLDivElement>(null);
  useEffect(() => group.current?.focus(), []);
  const address = new URL(link.url, window.location.href).href;
  const frame = `<iframe src="${address}/embed" width="640" height="360" style="border:0" allowfullscreen title="Animation"></iframe>`;
  return (
    <div ref={group} role="group" aria-label="The new link" tabIndex={-1} className="mt-4 space-y-3 rounded-xl bg-sunken p-4">
      <p className="text-sm">Copy it now: it cannot be shown again.</p>
      <Copied label="The link" text={address} />
      <details className="text-sm">
        <summary className="min-h-6 cursor-pointer text-muted">To put the video into another page</summary>
        <div className="mt-2">
          <Copied label="For another page" text={frame} />
          <p className="mt-1 text-muted">
            With <code>/embed?loop</code> it begins again at its end, with <code>?autoplay</code> it plays by itself, muted, with <code>?loop&autoplay</code> both.
          </p>
        </div>
      </details>
      <Button kind="quiet" className="-ml-3 hover:bg-line" onClick={another}>
        Make another link
      </Button>
    </div>
  );
}

function Links({ sessionId, job, removed }: { sessionId: string; job: string | undefined; removed: (id: string) => void }) {
  const client = useQueryClient();
  const key = ['shares', sessionId];
  const [said, setSaid] = useState('');
  const links = useLinks(sessionId);
  const shares = links.data?.shares ?? [];
  const heading = useRef<HTMLHeadingElement>(null);
  const had = useRef(false);
  had.current ||= shares.length > 0;
  if (!had.current) return <Said problem={links.error} />;
  const isGone = (id: string) => {
    removed(id);
    const left = shares.filter((each) => each.id !== id);
    client.setQueryData<Schemas['ShareList']>(key, { shares: left });
    setSaid(left.length === 0 ? 'Revoked. There are no links' : `Revoked. Links: ${left.length}`);
    heading.current?.focus(); // what had it is not there any more
  };
  return (
    <section aria-labelledby="links" className="mt-6 border-t border-line pt-4">
      <h3 ref={heading} id="links" tabIndex={-1} className="w-fit text-sm font-medium">
        {shares.length === 0 ? 'No links' : shares.length === 1 ? 'One link' : `${shares.length} links`}
      </h3>
      <p role="status" className="sr-only">
        {said}
      </p>
      <Said problem={links.error} />
      <ul aria-label="Links" className="mt-2 divide-y divide-line">
        {shares.map((each) => (
          <Row
            key={each.id}
            sessionId={sessionId}
            share={each}
            isOfAnother={job !== undefined && each.job !== job}
            removed={() => isGone(each.id)}
          />
        ))}
      </ul>
    </section>
  );
}

interface RowProps {
  sessionId: string;
  share: ShareView;
  isOfAnother: boolean;
  removed: () => void;
}

function Row({ sessionId, share, isOfAnother, removed }: RowProps) {
  const client = useQueryClient();
  const [asked, setAsked, opener] = useDraft();
  const revoking = useMutation<void, Problem>({
    mutationFn: () => ask<void>(`/v1/sessions/${sessionId}/shares/${share.id}`, { method: 'DELETE' }).catch(unlessGone),
    onSuccess: async () => {
      removed();
      await client.invalidateQueries({ queryKey: ['shares', sessionId] });
    },
  });
  const { commented, ended } = share;
  const name = share.label || 'A link';
  const told = [
    `made ${ago(share.createdAt, clock.now())}`,
    ended ? 'ended' : share.expiresAt ? `works until ${day(share.expiresAt)}` : 'works until revoked',
    isOfAnother && 'another video of this session',
  ];
  const leave = () => {
    revoking.reset();
    setAsked(undefined);
  };
  return (
    <li className="py-3">
      <div className="flex items-center gap-3">
        <div className="mr-auto min-w-0">
          <p className={`text-sm wrap-anywhere ${ended ? 'text-muted line-through' : ''}`}>{name}</p>
          <p className="text-sm text-muted">{told.filter(Boolean).join(' · ')}</p>
        </div>
        {asked === undefined && (
          <button
            ref={opener}
            type="button"
            aria-label={`Revoke ${name}`}
            className="min-h-9 shrink-0 rounded-lg px-3 text-sm text-muted hover:bg-sunken hover:text-text"
            onClick={() => setAsked('')}
          >
            Revoke
          </button>
        )}
      </div>
      {asked !== undefined && (
        <Sure
          label={`Revoke ${name}`}
          yes="Revoke it"
          no="Keep it"
          problem={revoking.error}
          busy={revoking.isPending}
          act={() => revoking.mutate()}
          leave={leave}
        >
          {ended ? 'It has ended already, and leaves this list' : 'Whoever has it sees nothing any more'}
          {commented > 0 && `, and ${commented === 1 ? 'its comment goes' : `its ${commented} comments go`} with it`}.
        </Sure>
      )}
      {commented > 0 && <Comments sessionId={sessionId} share={share} />}
    </li>
  );
}

/** What was said with a link, read when somebody wants to. */
function Comments({ sessionId, share }: { sessionId: string; share: ShareView }) {
  const [isOpen, setOpen] = useState(false);
  const found = useQuery<Schemas['ShareDetail'], Problem>({
    queryKey: ['shares', sessionId, share.id, share.commented],
    queryFn: () => ask(`/v1/sessions/${sessionId}/shares/${share.id}`),
    enabled: isOpen,
  });
  const versions = useVersions(sessionId);
  const show = useMoment();
  const details = useRef<HTMLDetailsElement>(null);
  const go = (at: number) => {
    const its = versions.find(({ jobId, finalUrl }) => jobId === share.job || finalUrl?.includes(share.job));
    details.current?.closest('dialog')?.close();
    window.scrollTo(0, 0);
    show(its, at);
  };
  return (
    <details ref={details} className="mt-1 text-sm" onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary className="min-h-6 cursor-pointer text-accent">{commentWords([share])}</summary>
      <Said problem={found.error} />
      <ol aria-label={`Comments of ${share.label || 'a link'}`} className="mt-2 space-y-3">
        {found.data?.said.map((each) => <Remark key={each.id} remark={each} go={go} />)}
      </ol>
    </details>
  );
}
