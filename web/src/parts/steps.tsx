import { Check, Circle, CircleDashed } from 'lucide-react';
import type { Schemas } from '../api/client';

/** The steps of the work, each with how far it is. */
export function Steps({ todos }: { todos: readonly Schemas['Todo'][] }) {
  return (
    <ul className="space-y-2" aria-label="Steps">
      {todos.map((todo) => (
        <li key={todo.id} className={`flex gap-2.5 text-sm ${todo.status === 'pending' ? 'text-muted' : ''}`}>
          {todo.status === 'done' ? (
            <Check aria-label="done" className="mt-0.5 size-4 shrink-0 text-good" />
          ) : todo.status === 'active' ? (
            <CircleDashed aria-label="under way" className="breathing mt-0.5 size-4 shrink-0 text-accent" />
          ) : (
            <Circle aria-label="to come" className="mt-0.5 size-4 shrink-0" />
          )}
          {todo.label}
        </li>
      ))}
    </ul>
  );
}
