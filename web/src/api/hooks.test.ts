import { QueryClient, QueryObserver } from '@tanstack/react-query';
import { expect, test, vi } from 'vitest';

vi.stubGlobal('document', { cookie: '' });
const { forgetRead, LOGIN } = await import('./hooks');

test('what was read for one person is not seen by another, and is read anew where it is shown', async () => {
  const client = new QueryClient();
  let reads = 'of ann';
  const shown = new QueryObserver(client, { queryKey: ['sessions', 'all'], queryFn: () => Promise.resolve(reads) });
  const end = shown.subscribe(() => {});
  client.setQueryData(LOGIN, { user: 'bob' });
  client.setQueryData(['session', 'ses_1'], 'of ann');
  await vi.waitFor(() => expect(shown.getCurrentResult().data).toBe('of ann'));
  reads = 'of bob';
  forgetRead(client);
  expect([shown.getCurrentResult().data, client.getQueryData(['session', 'ses_1'])]).toEqual([undefined, undefined]);
  expect(client.getQueryData(LOGIN)).toEqual({ user: 'bob' });
  await vi.waitFor(() => expect(shown.getCurrentResult().data).toBe('of bob'));
  end();
  client.clear();
});
