import { useQuery } from '@tanstack/react-query';
import { Info } from 'lucide-react';
import { ask, Problem, type Schemas } from '../api/client';

/** Whether no model answers here, and the built-in director makes the animations. */
export function useOffline(): boolean {
  const found = useQuery<Schemas['Capabilities'], Problem>({
    queryKey: ['capabilities'],
    queryFn: () => ask('/v1/capabilities'),
    staleTime: Infinity,
  });
  return found.data?.director === 'offline';
}

/** What to expect where no model answers, before somebody asks for what it cannot do. */
export function NoModel() {
  if (!useOffline()) return null;
  return (
    <p className="mt-6 flex gap-3 rounded-xl border border-line px-4 py-3 text-sm text-muted">
      <Info aria-hidden className="mt-0.5 size-4 shrink-0" />
      <span>
        No model is connected, so a built-in director makes the animations. It knows certain subjects, the examples above among
        them, and how to vary them; it does not understand everything. Whoever runs this server connects a model with a key:{' '}
        <code className="text-text">ANTHROPIC_API_KEY</code>, or another provider's.
      </span>
    </p>
  );
}
