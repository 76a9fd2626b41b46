import { Component, type ReactNode } from 'react';
import { Button } from './button';

/** What is said in place of a page that broke, or a part of which did not come. */
export class Mended extends Component<{ children: ReactNode }, { isBroken: boolean }> {
  override state = { isBroken: false };

  static getDerivedStateFromError() {
    return { isBroken: true };
  }

  override render() {
    if (!this.state.isBroken) return this.props.children;
    return (
      <main className="mx-auto max-w-md px-4 py-24 text-center">
        <h1 className="text-2xl font-semibold tracking-tight">This page did not come whole</h1>
        <p role="alert" className="mt-3 text-muted">
          The server may be away just now, or have changed.
        </p>
        <Button kind="main" className="mt-6" onClick={() => window.location.reload()}>
          Load it again
        </Button>
      </main>
    );
  }
}
