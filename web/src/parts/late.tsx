import { Component, type ComponentType, lazy, type ReactNode, useEffect, useRef } from 'react';
import { build } from '../api/build';
import { NotCome, patiently } from '../api/coming';
import { sheets } from '../api/sheets';
import { Button } from './button';

type Within<Props> = (props: Props, said: ReactNode) => ReactNode;

const asItIs = <Props,>(_: Props, said: ReactNode) => said;

/**
 * A part of the page that comes when it is needed. Where it does not come, that is said in its place, and nothing else of the page
 * goes: `within` puts the words where the part would be.
 */
export function late<Props extends object>(load: () => Promise<ComponentType<Props>>, within: Within<Props> = asItIs): ComponentType<Props> {
  return coming(load, within, false);
}

/** A screen that comes when it is needed; the words that it does not come are a screen as well. */
export function lateScreen<Props extends object>(load: () => Promise<ComponentType<Props>>, within: Within<Props> = asItIs): ComponentType<Props> {
  return coming(load, within, true);
}

function coming<Props extends object>(load: () => Promise<ComponentType<Props>>, within: Within<Props>, isScreen: boolean): ComponentType<Props> {
  const whole = sheets.with(load);
  const begun = () => lazy(() => patiently(whole).then((part) => ({ default: part }))) as unknown as ComponentType<Props>;
  let Part = begun();
  const anew = () => {
    Part = begun();
  };
  return function Late(props: Props) {
    const said = (isOfBefore: boolean) => within(props, <Missed isOfBefore={isOfBefore} isScreen={isScreen} />);
    return (
      <Coming said={said} anew={anew}>
        <Part {...props} />
      </Coming>
    );
  };
}

interface Props {
  said: (isOfBefore: boolean) => ReactNode;
  /** Have it asked for again when it is needed next. */
  anew: () => void;
  children: ReactNode;
}

class Coming extends Component<Props, { problem?: unknown }> {
  override state: { problem?: unknown } = {};

  static getDerivedStateFromError(problem: unknown) {
    return { problem };
  }

  override componentWillUnmount() {
    if (this.state.problem) this.props.anew();
  }

  override render() {
    const { problem } = this.state;
    if (problem === undefined) return this.props.children;
    if (problem instanceof NotCome) return this.props.said(problem.isOfBefore);
    throw problem; // it came, and broke
  }
}

/** Why a part is not there, and the way to it. What was typed for an animation is kept over that, and where one is stands in the address. */
function Missed({ isOfBefore, isScreen }: { isOfBefore: boolean; isScreen: boolean }) {
  const way = useRef<HTMLButtonElement>(null);
  useEffect(() => (isOfBefore ? build.miss() : undefined), [isOfBefore]);
  useEffect(() => {
    if (!isScreen && document.activeElement === document.body) way.current?.focus({ preventScroll: true }); // it was at what this came for
  }, [isScreen]);
  const Words = isScreen ? 'h1' : 'p';
  return (
    <div role="alert" className={isScreen ? 'mx-auto max-w-md py-24 text-center' : 'mt-4'}>
      <Words className={isScreen ? 'text-2xl font-semibold tracking-tight' : 'font-medium'}>
        {isOfBefore ? 'A newer version of this page is here' : 'This part of the page did not come'}
      </Words>
      <p className={isScreen ? 'mt-3 text-muted' : 'mt-1 text-muted'}>
        {isOfBefore && 'This part of the one that is open is not kept any more. '}
        All else goes on, and what you typed for your animations stays.
      </p>
      <Button ref={way} kind="main" className={isScreen ? 'mt-6' : 'mt-4'} onClick={() => window.location.reload()}>
        {isOfBefore ? 'Load it' : 'Load it again'}
      </Button>
    </div>
  );
}
