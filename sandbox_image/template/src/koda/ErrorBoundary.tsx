// Catches what a component throws, records it for the renderer and shows it to whoever watches live.
import { Component, type ErrorInfo, type ReactNode } from 'react';
import { mode } from './contract';
import { record } from './errors';

export class ErrorBoundary extends Component<{ children: ReactNode }, { thrown: unknown }> {
  override state = { thrown: undefined as unknown };

  static getDerivedStateFromError(thrown: unknown): { thrown: unknown } {
    return { thrown: thrown ?? new Error('a component threw nothing') };
  }

  override componentDidCatch(thrown: unknown, info: ErrorInfo): void {
    record(thrown, 'react', info.componentStack ?? '');
    if (import.meta.hot) import.meta.hot.on('vite:afterUpdate', () => this.setState({ thrown: undefined }));
  }

  override render(): ReactNode {
    if (this.state.thrown === undefined) return this.props.children;
    if (mode === 'export') return null;
    return (
      <pre style={{ position: 'absolute', inset: 0, margin: 0, padding: '5%', font: '28px/1.5 var(--font-mono)', color: '#fca5a5', background: '#1c1017', whiteSpace: 'pre-wrap' }}>
        {String(this.state.thrown)}
      </pre>
    );
  }
}
