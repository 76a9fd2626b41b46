/** Telling somebody who looks elsewhere that it is their turn: in the tab's title, and on the desktop where they asked for that. */
import { useEffect, useRef, useState } from 'react';
import type { NodeState } from '../api/client';
import { mood, phaseWords } from './phase';

const SWITCHED_ON = 'koda.notifies';

export const notices = {
  can: () => 'Notification' in window,
  on: () => notices.can() && Notification.permission === 'granted' && localStorage.getItem(SWITCHED_ON) !== null,
  /** Switch it; a browser is asked only for who wants it. Returns whether it is on. */
  set: async (wants: boolean): Promise<boolean> => {
    if (wants && (await Notification.requestPermission()) === 'granted') localStorage.setItem(SWITCHED_ON, 'yes');
    else localStorage.removeItem(SWITCHED_ON);
    return notices.on();
  },
};

/** Whether there is something new of a session since one looked elsewhere: its work is over, it asks, or it stopped. */
export function useNews(state: NodeState | undefined, title: string): boolean {
  const [isNew, setNew] = useState(false);
  const is = state && mood(state);
  const before = useRef(is);
  useEffect(() => {
    const wasWorking = before.current === 'works';
    before.current = is;
    if (!state || !wasWorking || is === 'works' || is === 'rests' || !document.hidden) return;
    setNew(true);
    if (notices.on()) tell(title, phaseWords(state));
  }, [is]);
  useEffect(() => {
    const seen = () => document.hidden || setNew(false);
    document.addEventListener('visibilitychange', seen);
    return () => document.removeEventListener('visibilitychange', seen);
  }, []);
  return isNew;
}

function tell(title: string, body: string) {
  try {
    const notice = new Notification(title, { body, icon: '/koda.svg', tag: window.location.pathname });
    notice.onclick = () => {
      window.focus();
      notice.close();
    };
  } catch {
    // a phone has none that a page may show
  }
}
