import { afterEach, expect, test, vi } from 'vitest';
import { command, isForking, watchForks } from './client';

afterEach(() => vi.unstubAllGlobals());

test('another session that is being made of one is told until it is there, or could not be made', async () => {
  const told: boolean[] = [];
  const end = watchForks(() => told.push(isForking('ses_1')));
  vi.stubGlobal('fetch', async () => new Response('{"sessionId": "ses_2"}'));
  await command({ id: 'ses_1', seq: 3 }, 'fork');
  await command({ id: 'ses_1', seq: 3 }, 'accept');
  vi.stubGlobal('fetch', async () => new Response('{}', { status: 409 }));
  await expect(command({ id: 'ses_1', seq: 4 }, 'fork')).rejects.toMatchObject({ status: 409 });
  expect(told).toEqual([true, false, true, false]);
  expect(isForking('ses_2')).toBe(false);
  end();
});
