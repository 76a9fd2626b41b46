import { Component, type ReactNode } from 'react';
import { Button } from './button';

/** What is said in place of a page that broke. A part that did not come says so itself (`late.tsx`). */
export class Mended extends Component<{ children: ReactNode }, { isBroken: boolean }> {
  override state = { isBroken: false };

  static getDerivedStateFromError() {
    return { isBroken: true };
  }

  override render() {
    if (!this.state.isBroken) return this.props.children;
    return (
      <main className="mx-auto max-w-md px-4 py-24 text-center">
        <h1 className="text-2xl font-semibold tracking-tight">This page broke</h1>
        <p role="alert" className="mt-3 text-muted">
          That is a fault of the page, and of nothing that you made. What you typed for your animations stays.
        </p>
        <Button kind="main" className="mt-6" onClick={() => window.location.reload()}>
          Load it again
        </Button>
      </main>
    );
  }
}
