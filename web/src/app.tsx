import { useMutation, useQueryClient } from '@tanstack/react-query';
import { LogOut } from 'lucide-react';
import { Suspense, useEffect } from 'react';
import { Link, Route, Switch, useLocation } from 'wouter';
import { ask, type Problem } from './api/client';
import { LOGIN, useLink, useLogin } from './api/hooks';
import { forgetTyped } from './api/kept';
import { ownersBefore } from './api/owner';
import { uploads } from './api/uploads';
import { Announcer } from './parts/announcer';
import { Away } from './parts/away';
import { Button } from './parts/button';
import { useArrival } from './parts/focus';
import { lateScreen } from './parts/late';
import { Mended } from './parts/mended';
import { Helps } from './parts/more';
import { Navigation } from './parts/navigation';
import { Newer } from './parts/newer';
import { PuttingOnCanvas } from './parts/put-on-canvas';
import { Said } from './parts/said';
import { Toasts } from './parts/toasts';
import { Home } from './screens/home';
import { Missing } from './screens/missing';

// what is not looked at first comes when it is; the studio, where the first page leads, once somebody does anything there
const studio = () => import('./screens/session');
const SignIn = lateScreen(() => import('./screens/sign-in').then((module) => module.SignIn));
const Session = lateScreen(() => studio().then((module) => module.Session));
const Compare = lateScreen(() => import('./screens/compare').then((module) => module.Compare));
const Takes = lateScreen(() => import('./screens/takes').then((module) => module.Takes));
const Renders = lateScreen(() => import('./screens/renders').then((module) => module.Renders));
const Render = lateScreen(() => import('./screens/render').then((module) => module.Render));
const Watch = lateScreen(() => import('./screens/watch').then((module) => module.Watch), (_, said) => <main>{said}</main>);
const Embed = lateScreen(() => import('./screens/watch').then((module) => module.Embed), (_, said) => <main>{said}</main>);
const Canvas = lateScreen(() => import('./screens/canvas').then((module) => module.Canvas));
const Assets = lateScreen(() => import('./screens/assets').then((module) => module.Assets));
const Usage = lateScreen(() => import('./screens/usage').then((module) => module.Usage));
const Sandboxes = lateScreen(() => import('./screens/sandboxes').then((module) => module.Sandboxes));
const Sandbox = lateScreen(() => import('./screens/sandbox').then((module) => module.Sandbox));

const SIGNED_OUT = 'signed out';

/** What somebody was sent is for whoever has its address; everything else is one's own, and in no other page's frame. */
export function App() {
  return (
    <Mended>
      <Suspense fallback={<p className="p-8 text-muted">One moment…</p>}>
        <Switch>
          <Route path="/w/:token/embed">{({ token }) => <Embed key={token} token={token} />}</Route>
          <Route path="/w/:token">{({ token }) => <Watch key={token} token={token} />}</Route>
          <Route>{window.top === window.self && <SignedIn />}</Route>
        </Switch>
      </Suspense>
    </Mended>
  );
}

function SignedIn() {
  const login = useLogin();
  const link = useLink();
  const client = useQueryClient();
  const [path] = useLocation();
  useArrival(login.isPending ? undefined : login.error?.status === 401 ? SIGNED_OUT : path);
  useEffect(() => {
    if (link === 'signed-out') void client.invalidateQueries({ queryKey: LOGIN });
  }, [link, client]);

  useEffect(() => {
    const soon = () => void studio().catch(() => undefined); // it is asked for again where it is shown
    const signs = ['pointermove', 'pointerdown', 'keydown'] as const;
    for (const sign of signs) document.addEventListener(sign, soon, { once: true });
    return () => signs.forEach((sign) => document.removeEventListener(sign, soon));
  }, []);

  const leaving = useMutation<unknown, Problem>({
    mutationFn: () => ask('/v1/login', { method: 'DELETE' }),
    onSuccess: () => {
      uploads.close();
      client.clear();
      forgetTyped();
      window.location.assign('/');
    },
  });

  if (login.isPending) return <p className="p-8 text-muted">One moment…</p>;
  if (login.error?.status === 401)
    return (
      <Suspense fallback={null}>
        <SignIn />
      </Suspense>
    );
  const signedIn = login.data?.signedIn ? { user: login.data.user, signOut: () => leaving.mutate() } : undefined;
  return (
    <div key={ownersBefore()} className="mx-auto flex min-h-dvh max-w-[90rem] flex-col px-4 sm:px-6 xl:px-10">
      <a href="#main" className="sr-only focus:not-sr-only focus:absolute focus:top-2 focus:left-2 focus:rounded-lg focus:bg-panel focus:p-2">
        To the content
      </a>
      <header className="flex h-16 items-center gap-1 max-[25rem]:gap-0 max-[22rem]:-mx-2 sm:gap-2 lg:gap-4">
        <Link href="/" className="flex shrink-0 items-center gap-2 rounded-lg text-lg font-semibold tracking-tight max-sm:mr-1.5 max-[22rem]:mr-1">
          <img src="/koda.svg" alt="" className="size-6" /> <span className="max-md:sr-only">koda</span>
        </Link>
        <Navigation />
        <span className="flex-1" />
        <Helps signedIn={signedIn} />
        {signedIn && (
          <>
            <span className="max-w-48 truncate text-sm text-muted max-xl:hidden" title={signedIn.user}>
              {signedIn.user}
            </span>
            <Button kind="quiet" className="max-xl:hidden" onClick={signedIn.signOut} disabled={leaving.isPending}>
              <LogOut aria-hidden className="size-4" /> Sign out
            </Button>
          </>
        )}
      </header>
      <Away isSilent={Boolean(login.error)} />
      <Newer />
      {leaving.error && (
        <div className="mb-4">
          <Said problem={leaving.error} />
        </div>
      )}
      <Toasts />
      <Announcer />
      <PuttingOnCanvas />
      <main id="main" className="flex-1 pb-16">
        <Suspense fallback={<p className="py-16 text-muted">One moment…</p>}>
          <Switch>
            <Route path="/" component={Home} />
            <Route path="/renders" component={Renders} />
            <Route path="/renders/:id">{({ id }) => <Render key={id} id={id} />}</Route>
            <Route path="/assets" component={Assets} />
            <Route path="/usage" component={Usage} />
            <Route path="/sandboxes" component={Sandboxes} />
            <Route path="/sandboxes/:id">{({ id }) => <Sandbox key={id} id={id} />}</Route>
            <Route path="/c/:id?">{({ id }) => <Canvas id={id} />}</Route>
            <Route path="/s/:id/compare">{({ id }) => <Compare key={id} id={id} />}</Route>
            <Route path="/s/:id">{({ id }) => <Session key={id} id={id} />}</Route>
            <Route path="/t/:group">{({ group }) => <Takes key={group} group={group} />}</Route>
            <Route>
              <Missing what="There is nothing at this address." why="A letter of it may be wrong, or it was an address of another server." />
            </Route>
          </Switch>
        </Suspense>
      </main>
    </div>
  );
}
