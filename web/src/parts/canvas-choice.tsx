import { Plus } from 'lucide-react';
import { useLocation } from 'wouter';
import { useLogin } from '../api/hooks';
import { withAnimation } from '../canvas/canvases';
import { type Shared, sharedOf, useShared } from '../canvas/shared';
import { Button } from './button';
import { CanvasRow } from './canvas-row';
import { Dialog } from './dialog';

interface Props {
  sessionId: string;
  title: string;
  close: () => void;
}

/** Which canvas an animation is put on: one of those that there are, or a new one. */
export function CanvasChoice({ sessionId, title, close }: Props) {
  const { data: login } = useLogin();
  return (
    <Dialog title="Put it on a canvas" close={close}>
      <p className="mt-1 line-clamp-2 text-sm text-muted wrap-anywhere">{title}</p>
      {login && <Those shared={sharedOf(login.user)} sessionId={sessionId} close={close} />}
    </Dialog>
  );
}

function Those({ shared, sessionId, close }: { shared: Shared; sessionId: string; close: () => void }) {
  useShared(shared);
  const list = shared.list();
  const [, go] = useLocation();
  const begin = () => {
    close();
    go(withAnimation(shared.create(), sessionId));
  };
  return (
    <>
      {list.length > 0 && (
        <ul aria-label="Canvases" className="-mx-3 mt-4 max-h-[50dvh] space-y-1 overflow-y-auto">
          {list.map((each) => (
            <li key={each.id} className="flex">
              <CanvasRow canvas={each} href={withAnimation(each.id, sessionId)} open={close}>
                {each.sessionIds.includes(sessionId) && <span className="shrink-0 text-sm text-accent">It is on it</span>}
              </CanvasRow>
            </li>
          ))}
        </ul>
      )}
      <Button kind="main" className="mt-5" onClick={begin}>
        <Plus aria-hidden className="size-4" /> New canvas
      </Button>
    </>
  );
}
