import { useMutation, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { ask, Problem, type Schemas } from '../api/client';
import { LOGIN } from '../api/hooks';
import { Button } from '../parts/button';
import { Said } from '../parts/said';

/** A key is typed once; from then on a cookie stands for it, which this page cannot read. */
export function SignIn() {
  const [key, setKey] = useState('');
  const client = useQueryClient();
  const signing = useMutation<Schemas['LoginView'], Problem>({
    mutationFn: () => ask('/v1/login', { method: 'POST', headers: { Authorization: `Bearer ${key.trim()}` } }),
    onSuccess: async () => {
      setKey('');
      client.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== LOGIN[0] }); // another user's, perhaps
      await client.resetQueries({ queryKey: LOGIN });
    },
  });
  const send = (event: FormEvent) => {
    event.preventDefault();
    if (key.trim() && !signing.isPending) signing.mutate();
  };
  return (
    <main className="grid min-h-dvh place-items-center px-4">
      <form onSubmit={send} className="card w-full max-w-sm space-y-5 p-8">
        <img src="/koda.svg" alt="" className="size-9" />
        <div>
          <h1 className="text-2xl font-semibold tracking-tight">Sign in to koda</h1>
          <p className="mt-1.5 text-sm text-muted">With the key that you were given. This browser remembers that you are signed in, not the key.</p>
        </div>
        <label className="block space-y-1.5">
          <span className="block text-sm font-medium">Key</span>
          <input
            className="field"
            type="password"
            name="key"
            autoComplete="current-password"
            autoFocus
            required
            value={key}
            onChange={(event) => setKey(event.target.value)}
            aria-invalid={signing.isError}
            aria-describedby={signing.isError ? 'key-said' : undefined}
          />
        </label>
        <Said problem={signing.error} id="key-said" />
        <Button kind="main" type="submit" className="w-full" disabled={signing.isPending}>
          {signing.isPending ? 'Signing in…' : 'Sign in'}
        </Button>
        <p className="text-sm text-muted">
          None yet? Whoever runs the server makes one: <code className="text-text">koda keys create YOU</code>
        </p>
      </form>
    </main>
  );
}
