import { expect, test } from 'vitest';
import { filmOf } from './official';
import type { SessionState } from './session';

const made = (jobId: string) => ({ jobId, videoUrl: `/v/${jobId}` });
const state = (what: Partial<SessionState>): SessionState => ({ phase: 'complete', prompt: '', ...what });

test('what goes into the next one is a video that a page can show', () => {
  const preview = made('job_p');
  expect(filmOf(state({}))).toBeUndefined();
  expect(filmOf(state({ preview }))).toEqual({ jobId: 'job_p', format: 'mp4' });
  expect(filmOf(state({ preview, output: made('job_f') }))).toEqual({ jobId: 'job_f', format: 'mp4' });
  expect(filmOf(state({ preview, output: made('job_f'), render: { format: 'webm' } }))).toEqual({ jobId: 'job_f', format: 'webm' });
  expect(filmOf(state({ preview, output: made('job_f'), render: { format: 'gif' } }))).toEqual({ jobId: 'job_p', format: 'mp4' });
  expect(filmOf(state({ preview, output: { ...made('job_f'), format: 'webm' }, render: { format: 'gif' } }))).toEqual({ jobId: 'job_f', format: 'webm' });
  expect(filmOf(state({ preview, output: { ...made('job_f'), fileSize: 1e9 } }))).toEqual({ jobId: 'job_p', format: 'mp4' });
});
