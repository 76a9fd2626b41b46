import { ArrowDown, ArrowUp, MessageSquarePlus, Pencil, X } from 'lucide-react';
import { type FormEvent, useContext, useEffect, useId, useRef, useState } from 'react';
import { useAct } from '../api/acts';
import type { Schemas } from '../api/client';
import { type Draft, drafted, Drafting, draftOf, goneOn, lengthOf } from '../api/drafted';
import { useKept } from '../api/kept';
import type { Sent } from '../screens/session';
import { Button } from './button';
import { useEscape } from './escape';
import { AreaInRow, InRow, useFirstWrong } from './field';
import { useRefocus } from './focus';
import { Key, sendByKeys, useKey } from './keys';
import type { Props } from './turn';
import { leftToSay, TURN_SAID } from './turned';

type PlanOf = Schemas['Plan'];

/** So long a scene's description may be. */
const NO_EDITS: { base: string; scenes: Draft[] } = { base: '', scenes: [] };
const NO_COMMENTS: { base: string; of: Record<number, string> } = { base: '', of: {} };

/** The plan that waits: to be made, to be edited scene by scene, or to be planned anew with what is said of its scenes. */
export function Plan({ session, send, busy, refused }: Props) {
  const plan = session.state.plan;
  const base = JSON.stringify(plan?.scenes);
  const [kept, keep] = useKept(session.id, 'scenes', NO_EDITS);
  const isKept = kept.base === base;
  const [edits, setEdits] = useState(isKept);
  const [wasLeft, setLeft] = useState(false);
  const card = useRef<HTMLElement>(null);
  useRefocus(edits ? 'edited' : 'shown', card);
  if (!plan) return null;
  const close = (isLeft: boolean) => {
    setEdits(false);
    setLeft(isLeft);
  };
  const drop = (isLeft: boolean) => {
    keep(NO_EDITS);
    close(isLeft);
  };
  return (
    <section ref={card} className="card space-y-4 p-5" aria-labelledby="plan">
      <div>
        <h2 id="plan" className="font-semibold">
          The plan
        </h2>
        <p className="mt-1 text-sm text-muted">
          {plan.style} · {seconds(plan.totalDuration)} · {plan.width} × {plan.height} · {plan.fps} fps
          {session.state.planEdited && ' · as you changed it'}
        </p>
      </div>
      {edits ? (
        <Edited
          plan={plan}
          send={send}
          busy={busy}
          refused={refused}
          kept={isKept ? kept : undefined}
          keep={keep}
          saved={() => drop(false)}
          leave={() => drop(true)}
          shut={() => close(true)}
        />
      ) : (
        <Shown
          sessionId={session.id}
          base={base}
          plan={plan}
          send={send}
          busy={busy}
          refused={refused}
          edit={() => setEdits(true)}
          isKept={isKept}
          wasLeft={wasLeft}
        />
      )}
    </section>
  );
}

interface Part extends Sent {
  plan: PlanOf;
}

interface Showing {
  sessionId: string;
  base: string;
  edit: () => void;
  /** Whether scenes were edited, and that was left without being saved. */
  isKept: boolean;
  /** Whether one comes from editing: back to what leads there. */
  wasLeft: boolean;
}

/** What is said of a plan's scenes: of that plan, and not of the next one with scenes of the same numbers. */
function useComments(sessionId: string, base: string) {
  const [kept, keep] = useKept(sessionId, 'comments', NO_COMMENTS);
  const of = (all: typeof NO_COMMENTS) => (all.base === base ? all.of : NO_COMMENTS.of);
  const put = (change: (before: Record<number, string>) => Record<number, string>) =>
    keep((before) => {
      const next = change(of(before));
      return Object.keys(next).length > 0 ? { base, of: next } : NO_COMMENTS;
    });
  return [of(kept), put] as const;
}

function Shown({ sessionId, base, plan, send, busy, refused, edit, isKept, wasLeft }: Part & Showing) {
  const [comments, setComments] = useComments(sessionId, base);
  const said = plan.scenes.filter(({ number }) => comments[number]?.trim());
  const accept = () => void send('accept');
  useKey('Enter', busy || said.length > 0 ? undefined : accept);
  useAct(!busy && said.length === 0 && 'Make this', accept);
  const ask = async (event: FormEvent) => {
    event.preventDefault();
    const lines = said.map(({ number, title }) => `Scene ${number} (${title}): ${comments[number]?.trim()}`);
    if (busy || lines.length === 0 || !(await send('changes', { feedback: lines.join('\n') }))) return;
    setComments((now) => Object.fromEntries(Object.entries(now).filter(([number, words]) => words !== (comments[Number(number)] ?? ''))));
  };
  return (
    <form onSubmit={(event) => void ask(event)} className="space-y-4">
      <ol className="space-y-3.5" aria-label="Scenes of the plan">
        {plan.scenes.map(({ number, title, duration, description }) => (
          <li key={number} className="group/scene flex gap-3 text-sm">
            <span className="mt-px w-5 shrink-0 text-muted tabular-nums">{number}</span>
            <div className="min-w-0 flex-1">
              <p className="flex items-start justify-between gap-3 font-medium">
                <span className="min-w-0 wrap-anywhere">{title}</span>
                <span className="flex shrink-0 items-center gap-1.5 font-normal text-muted tabular-nums">
                  <button
                    type="button"
                    aria-label={`Say something of scene ${number}`}
                    aria-expanded={comments[number] !== undefined}
                    title="Say something of this scene"
                    className="-my-1 grid size-7 place-items-center rounded-lg opacity-0 group-hover/scene:opacity-100 hover:bg-sunken hover:text-text focus-visible:opacity-100 aria-expanded:opacity-100 pointer-coarse:opacity-100"
                    onClick={() => setComments(({ [number]: open, ...rest }) => (open === undefined ? { ...rest, [number]: '' } : rest))}
                  >
                    <MessageSquarePlus aria-hidden className="size-4" />
                  </button>
                  {seconds(duration)}
                </span>
              </p>
              <p className="text-muted">{description}</p>
              {comments[number] !== undefined && (
                <textarea
                  aria-label={`What should be different in scene ${number}`}
                  placeholder="What should be different here?"
                  rows={2}
                  autoFocus
                  className="field mt-2 resize-none text-sm"
                  aria-describedby={refused?.name === 'changes' ? TURN_SAID : undefined}
                  value={comments[number]}
                  onChange={({ target }) => setComments((before) => ({ ...before, [number]: target.value }))}
                  onKeyDown={(event) => {
                    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) event.currentTarget.form?.requestSubmit();
                  }}
                />
              )}
            </div>
          </li>
        ))}
      </ol>
      {isKept && (
        <p role="status" className="text-sm text-muted">
          What you edited is not in this plan yet. It is kept: Edit goes on with it.
        </p>
      )}
      <div className="flex flex-wrap gap-2">
        {said.length > 0 && (
          <Button kind="main" type="submit" disabled={busy}>
            {said.length === 1 ? 'Ask for this change' : `Ask for these ${said.length} changes`}
          </Button>
        )}
        <Button kind={said.length > 0 ? 'plain' : 'main'} onClick={accept} disabled={busy}>
          Make this {said.length === 0 && <Key name="Enter" />}
        </Button>
        <Button onClick={edit} disabled={busy} aria-label="Edit scenes" autoFocus={wasLeft}>
          <Pencil aria-hidden className="size-4" /> Edit
        </Button>
        <Button kind="quiet" onClick={() => void send('reject')} disabled={busy}>
          Ask me again
        </Button>
      </div>
      <p className="text-sm text-muted">Something else to change? Say it below.</p>
    </form>
  );
}

const ICON = 'grid size-8 place-items-center rounded-lg text-muted hover:bg-sunken hover:text-text aria-disabled:opacity-40';

interface Editing {
  kept: typeof NO_EDITS | undefined;
  keep: (edits: typeof NO_EDITS) => void;
  saved: () => void;
  /** Leaves what was edited. */
  leave: () => void;
  /** Leaves editing, and keeps what was edited. */
  shut: () => void;
}

function Edited({ plan, send, busy, refused, kept, keep, saved, leave, shut }: Part & Editing) {
  const form = useRef<HTMLFormElement>(null);
  useEscape(shut, form);
  const [base] = useState(() => kept?.base ?? JSON.stringify(plan.scenes));
  const [scenes, set] = useState<Draft[]>(() => (kept ? goneOn(plan.scenes, kept.scenes) : plan.scenes.map(draftOf)));
  const setScenes = (next: Draft[]) => {
    set(next);
    keep({ base, scenes: next });
  };
  const [told, setTold] = useState('');
  const hint = useId();
  const problem = refused?.name === 'plan' ? refused.problem : undefined;
  const said = problem && leftToSay(refused) ? TURN_SAID : undefined;
  const [sent, setSent] = useState<readonly number[]>([]);
  const fieldOf = (scene: number, what: 'title' | 'duration' | 'description') => `scenes.${sent.indexOf(scene)}.${what}`; // as they were sent
  useFirstWrong(form, problem);
  const isOld = JSON.stringify(plan.scenes) !== base;
  const show = useContext(Drafting);
  useEffect(() => {
    show(isOld ? undefined : drafted(plan.scenes, scenes));
    return () => show(undefined);
  }, [show, scenes, base, isOld]); // the plan is read anew again and again, and the same
  const lengths = scenes.map(lengthOf);
  const wrong = scenes.some(({ title }, at) => !title.trim() || !((lengths[at] ?? NaN) > 0));
  const total = lengths.reduce((sum, each) => sum + each, 0);
  const change = (scene: number, what: Partial<Draft>) =>
    setScenes(scenes.map((each) => (each.scene === scene ? { ...each, ...what } : each)));
  const move = (at: number, by: number) => {
    const to = at + by;
    const moved = scenes[at];
    if (!moved || to < 0 || to >= scenes.length) return;
    const others = scenes.toSpliced(at, 1);
    setScenes(others.toSpliced(to, 0, moved));
    setTold(`${moved.title} is scene ${to + 1} of ${scenes.length}`);
  };
  const drop = ({ scene, title }: Draft) => {
    setScenes(scenes.filter((each) => each.scene !== scene));
    setTold(`${title} is left out`);
  };
  const save = async (event: FormEvent) => {
    event.preventDefault();
    if (busy || wrong || isOld) return;
    const wanted = scenes.map(({ scene, title, description }, at) => ({ scene, title: title.trim(), duration: lengths[at], description: description.trim() }));
    setSent(scenes.map(({ scene }) => scene));
    if (await send('plan', { scenes: wanted })) saved();
  };
  return (
    <form ref={form} onSubmit={(event) => void save(event)} onKeyDown={sendByKeys} className="space-y-4">
      <ol className="space-y-3" aria-label="Scenes to edit">
        {scenes.map((each, at) => (
          <li key={each.scene} className="flex flex-wrap items-center gap-1.5">
            <InRow
              aria-label={`Title of scene ${at + 1}`}
              className="field min-w-0 flex-1 px-2.5 py-1.5 text-sm"
              aria-invalid={!each.title.trim() || undefined}
              problem={problem}
              name={fieldOf(each.scene, 'title')}
              hint={said}
              value={each.title}
              onChange={({ target }) => change(each.scene, { title: target.value })}
            />
            <InRow
              aria-label={`Seconds of scene ${at + 1}`}
              inputMode="decimal"
              className="field w-16! px-2 py-1.5 text-right text-sm tabular-nums"
              aria-invalid={!((lengths[at] ?? NaN) > 0) || undefined}
              problem={problem}
              name={fieldOf(each.scene, 'duration')}
              hint={said ? `${hint} ${said}` : hint}
              value={each.duration}
              onChange={({ target }) => change(each.scene, { duration: target.value })}
            />
            <button type="button" className={ICON} aria-label={`Earlier: ${each.title}`} title="Earlier" aria-disabled={at === 0} onClick={() => move(at, -1)}>
              <ArrowUp aria-hidden className="size-4" />
            </button>
            <button
              type="button"
              className={ICON}
              aria-label={`Later: ${each.title}`}
              title="Later"
              aria-disabled={at === scenes.length - 1}
              onClick={() => move(at, 1)}
            >
              <ArrowDown aria-hidden className="size-4" />
            </button>
            {scenes.length > 1 && (
              <button type="button" className={ICON} aria-label={`Leave out: ${each.title}`} title="Leave it out" onClick={() => drop(each)}>
                <X aria-hidden className="size-4" />
              </button>
            )}
            <AreaInRow
              aria-label={`Description of scene ${at + 1}`}
              placeholder="What is seen, and how it moves"
              rows={2}
              className="field order-last field-sizing-content max-h-60 resize-none px-2.5 py-1.5 text-sm"
              problem={problem}
              name={fieldOf(each.scene, 'description')}
              hint={said}
              value={each.description}
              onChange={({ target }) => change(each.scene, { description: target.value })}
            />
          </li>
        ))}
      </ol>
      <p id={hint} className="text-sm text-muted tabular-nums">
        {wrong ? 'Each scene has a title and a length in seconds.' : `${seconds(total)} together${difference(total - plan.totalDuration)}`}
      </p>
      <p role="status" className="sr-only">
        {told}
      </p>
      {isOld && (
        <p role="alert" className="rounded-xl bg-bad-ground px-3.5 py-2.5 text-sm text-bad">
          The plan was changed meanwhile. Leave this, and look at it again.
        </p>
      )}
      <div className="flex flex-wrap gap-2">
        <Button kind="main" type="submit" disabled={busy || wrong || isOld}>
          Save the scenes
        </Button>
        <Button onClick={leave} disabled={busy}>
          Leave it
        </Button>
      </div>
    </form>
  );
}

function difference(by: number): string {
  const rounded = Number(Math.abs(by).toFixed(2));
  return rounded === 0 ? '' : `, ${rounded} s ${by > 0 ? 'longer' : 'shorter'} than before`;
}

function seconds(value: number): string {
  return `${Number(value.toFixed(2))} s`;
}
