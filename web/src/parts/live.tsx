import { Volume2, VolumeX } from 'lucide-react';
import { type CSSProperties, type MouseEvent, type ReactNode, useEffect, useMemo, useRef, useState, useSyncExternalStore } from 'react';
import { ask, type Problem, type Schemas } from '../api/client';
import { type PageSource, playerOf, previewOf, usePageLink } from '../api/hooks';
import { LivePage } from '../api/live';
import { wantsRest } from '../api/motion';
import type { Stretch } from '../api/scenes';
import { frameOf } from '../api/still';
import { Button } from './button';
import { carry, useCounterpart } from './focus';
import { Said } from './said';
import { Screen } from './screen';
import { ICON } from './transport';

/** What leads to a live page and back, as the focus is carried between them. */
export const LIVE = 'live';
const UNSEEN_MS = 60_000;
const UNATTENDED_MS = 30 * 60_000;
const SIGNS = ['pointermove', 'pointerdown', 'wheel', 'keydown', 'touchmove'] as const;

interface Shown {
  name: string;
  wide: number;
  scenes: readonly Stretch[];
  tools: ReactNode;
  /** Called where somebody leaves it, and where nobody is at it any more. */
  leave: (isAlone?: boolean) => void;
  /** Which page it is, said over it, where another one might be meant. */
  label?: string | undefined;
  /** What is seen until it is there, where nobody asked for it; it is left without a word where it does not come. */
  instead?: ReactNode;
}

/** The page itself, as it is while it is written: it reloads by itself, and is moved frame by frame. */
export function Live({ sessionId, ...shown }: Shown & { sessionId: string }) {
  const wasSeen = useUnseen(shown.leave);
  if (!wasSeen) return shown.instead ?? <Starting wide={shown.wide} tools={shown.tools} />;
  return <Linked {...shown} what="The live page" source={previewOf(sessionId)} still={(at) => pictured(sessionId, at)} />;
}

/** The page of a version as it was built then: nothing is started for it, and nobody woken. */
export function Played({ sessionId, versionId, videoUrl, ...shown }: Shown & { sessionId: string; versionId: string; videoUrl: string }) {
  const still = (at: number) => frameOf(videoUrl, at); // nothing runs that could draw the page
  return <Linked {...shown} what="The page of this version" source={playerOf({ sessionId, versionId })} still={still} />;
}

interface Source {
  /** What it is, for who does not see it. */
  what: string;
  source: PageSource;
  still?: (time: number) => Promise<Blob>;
}

function Linked({ source, leave, ...page }: Shown & Source) {
  const link = usePageLink(source);
  const isMissing = Boolean(link.error && !link.data && page.instead);
  useEffect(() => {
    if (isMissing) leave();
  }, [isMissing]);
  if (!link.data && page.instead) return page.instead;
  if (link.error && !link.data) return <Unlinked problem={link.error} again={() => void link.refetch()} leave={leave} />;
  return link.data ? (
    <Page url={link.data.url} {...page} />
  ) : (
    <Starting wide={page.wide} tools={page.tools} />
  );
}

/** Why it is not there, in place of it and of what leads back. */
function Unlinked({ problem, again, leave }: { problem: Problem; again: () => void; leave: () => void }) {
  const first = useCounterpart(LIVE);
  const pressed = (act: () => void) => (event: MouseEvent) => {
    carry(LIVE, event);
    act();
  };
  return (
    <div className="space-y-3">
      <Said problem={problem} />
      <div className="flex gap-2">
        <Button ref={first} onClick={pressed(again)}>
          Try again
        </Button>
        <Button kind="quiet" onClick={pressed(leave)}>
          Leave it
        </Button>
      </div>
    </div>
  );
}

function Starting({ wide, tools }: Pick<Shown, 'wide' | 'tools'>) {
  return (
    <div className="space-y-2">
      <div className="picture bg-sunken" style={{ '--wide': wide } as CSSProperties}>
        <p role="status" className="text-muted">
          Starting the page…
        </p>
      </div>
      <div className="flex justify-end">{tools}</div>
    </div>
  );
}

/** One page after the other in one place: where its address is renewed, it goes on as it was. */
function Page({ what, name, url, wide, scenes, tools, still, label, instead }: Omit<Shown & Source, 'leave' | 'source'> & { url: string }) {
  const frame = useRef<HTMLIFrameElement>(null);
  const before = useRef<LivePage>(undefined);
  const page = useMemo(() => {
    const given = { before: before.current, rests: wantsRest };
    return new LivePage(() => frame.current?.contentWindow, new URL(url).origin, undefined, given);
  }, [url]);
  const { timeline, time, playing, problem, mutes, muted } = useSyncExternalStore(page.watch, () => page.shown);
  const [from, setFrom] = useState<string>();
  useEffect(() => {
    before.current = page;
    window.addEventListener('message', page.hear);
    setFrom(url); // it is heard before it can say anything
    return () => window.removeEventListener('message', page.hear);
  }, [page, url]);
  const isHidden = instead !== undefined && !timeline;
  return (
    <div className="relative space-y-2">
      <Screen
        wide={wide}
        scenes={scenes}
        name={name}
        begun={timeline}
        moved={timeline && { ...timeline, time, playing, seek: page.seek, play: page.play, pause: page.pause }}
        still={still}
        label={label}
        clear={page.clear}
        pick={page.pick}
        tools={
          <>
            {mutes && (
              <button type="button" className={ICON} aria-label="Mute" aria-pressed={muted} title={muted ? 'Have it be heard' : 'Mute it'} onClick={() => page.mute(!muted)}>
                {muted ? <VolumeX aria-hidden className="size-4" /> : <Volume2 aria-hidden className="size-4" />}
              </button>
            )}
            {tools}
          </>
        }
        meanwhile={
          <p role="status" className="min-h-9 py-1.5 text-sm text-muted">
            The page is loading…
          </p>
        }
      >
        <iframe
          key={url} // another address is no step of the browser's history
          ref={frame}
          title={what}
          src={from === url ? url : undefined}
          tabIndex={-1}
          className="absolute inset-0 size-full scheme-light border-0"
          referrerPolicy="no-referrer"
        />
      </Screen>
      {isHidden && <div className="absolute inset-x-0 top-0">{instead}</div>}
      {problem && !isHidden && (
        <p role="alert" className="rounded-xl bg-bad-ground px-3.5 py-2.5 text-sm wrap-anywhere text-bad">
          The page says: {problem}
        </p>
      )}
    </div>
  );
}

/** The very frame that a render would show, as a PNG: taken where the page lives. */
async function pictured(sessionId: string, at: number): Promise<Blob> {
  const { url } = await ask<Schemas['StillView']>(`/v1/sessions/${sessionId}/stills`, { method: 'POST', body: { atS: at } });
  return ask<Blob>(url, { as: 'blob' });
}

/**
 * A live page keeps its session awake, so one that nobody sees is left: after a minute out of sight, and after half an hour in
 * which nobody touched anything. Says whether it was ever seen.
 */
function useUnseen(leave: (isAlone?: boolean) => void): boolean {
  const [wasSeen, setSeen] = useState(() => !document.hidden);
  const now = useRef(leave);
  now.current = leave;
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const changed = () => {
      clearTimeout(timer);
      if (document.hidden) timer = setTimeout(() => now.current(), UNSEEN_MS);
      else setSeen(true);
    };
    changed();
    document.addEventListener('visibilitychange', changed);
    return () => {
      clearTimeout(timer);
      document.removeEventListener('visibilitychange', changed);
    };
  }, []);
  useEffect(() => {
    let last = Date.now();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const look = () => {
      const left = UNATTENDED_MS - (Date.now() - last);
      if (left > 0) timer = setTimeout(look, left);
      else now.current(true);
    };
    look();
    const touched = () => {
      last = Date.now();
    };
    for (const sign of SIGNS) document.addEventListener(sign, touched, { passive: true, capture: true });
    return () => {
      clearTimeout(timer);
      for (const sign of SIGNS) document.removeEventListener(sign, touched, { capture: true });
    };
  }, []);
  return wasSeen;
}
