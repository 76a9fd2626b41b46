/** The animation node, as the registry has it. */
import { AnimationNode } from './animation-node';
import { animationGeneratorPlugin } from './animation-generator';
import { titleOf } from './animation';
import { Problem } from './http';
import type { Entry } from './registry';
import type { AnimationData } from './request';
import { formOf, isPlayed, type SessionState, shownOf } from './session';

const MOST_BYTES = 48 << 20;

/** The video of a session that can be a part of another one's page. */
export function filmOf({ output, preview, render }: SessionState): { jobId: string; format: string } | undefined {
  const { format } = formOf({ output, render });
  const fits = isPlayed(format) && (output?.fileSize ?? 0) <= MOST_BYTES;
  if (output?.videoUrl && output.jobId && fits) return { jobId: output.jobId, format };
  return preview?.jobId ? { jobId: preview.jobId, format: 'mp4' } : undefined;
}

const sessionOf = (data: AnimationData) => data.sessionId;

export const animationGenerator: Entry = {
  plugin: animationGeneratorPlugin,
  component: AnimationNode,
  sessionId: (data) => sessionOf(data as AnimationData),
  output: (handle, data, koda) => {
    const { session } = koda.sessions.seen(sessionOf(data as AnimationData));
    const made = session && shownOf(session.state);
    if (!session || !made?.jobId) return undefined;
    const poster = koda.media(session.id, 'thumbnail', made.jobId) ?? '';
    const name = titleOf(session);
    if (handle === 'thumbnail') return { type: 'image', name, url: poster };
    return { type: 'video', name, url: koda.media(session.id, 'video', made.jobId) ?? '', poster };
  },
  // what cannot be a part of a page, such as frames in a zip, or is very large, is given by its preview, or its picture
  file: async (handle, data, koda) => {
    const { session } = koda.sessions.seen(sessionOf(data as AnimationData));
    const made = session && shownOf(session.state);
    if (!session || !made?.jobId) throw new Problem(0, 'NO_FILE', 'There is no video yet that could go along.');
    const media = (address: string) => koda.ask<Blob>(`/v1/sessions/${session.id}/${address}`, { as: 'blob' });
    const film = handle === 'thumbnail' ? undefined : filmOf(session.state);
    if (film) {
      const video = await media(`video?job=${film.jobId}&here=true`);
      return new File([video], `${session.id}.${film.format}`, { type: `video/${film.format}` });
    }
    return new File([await media(`thumbnail?job=${made.jobId}`)], `${session.id}.jpg`, { type: 'image/jpeg' });
  },
};
