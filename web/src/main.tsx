import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { onProblem } from './api/client';
import { forgetRead, LOGIN } from './api/hooks';
import { heedMotion } from './api/motion';
import { atChange } from './api/owner';
import { heedScheme } from './api/scheme';
import { heedSheets } from './api/sheets';
import { App } from './app';
import './style.css';

const client = new QueryClient({ defaultOptions: { queries: { staleTime: 5_000, retry: 1, refetchOnWindowFocus: true } } });
atChange(() => forgetRead(client));
heedMotion();
heedScheme();
heedSheets();
onProblem(({ status }) => {
  // whoever is not signed in any more is asked for the key wherever that shows; what was typed is kept
  const login = client.getQueryState(LOGIN);
  if (status === 401 && login?.data && !login.error && login.fetchStatus === 'idle') void client.invalidateQueries({ queryKey: LOGIN });
});

const root = document.getElementById('root');
if (root)
  createRoot(root).render(
    <StrictMode>
      <QueryClientProvider client={client}>
        <App />
      </QueryClientProvider>
    </StrictMode>,
  );
