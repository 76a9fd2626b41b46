/** The animation node, as the registry has it. */
import { AnimationNode } from './animation-node';
import { animationGeneratorPlugin } from './animation-generator';
import { titleOf } from './animation';
import { Problem } from './http';
import type { Entry } from './registry';
import type { AnimationData } from './request';
import { shownOf } from './session';

const sessionOf = (data: AnimationData) => data.sessionId;

export const animationGenerator: Entry = {
  plugin: animationGeneratorPlugin,
  component: AnimationNode,
  sessionId: (data) => sessionOf(data as AnimationData),
  output: (handle, data, koda) => {
    const { session } = koda.sessions.seen(sessionOf(data as AnimationData));
    const made = session && shownOf(session.state);
    if (!session || !made?.jobId) return undefined;
    const poster = koda.media(session.id, 'thumbnail', made.jobId);
    const name = titleOf(session);
    if (handle === 'thumbnail') return { type: 'image', name, url: poster };
    return { type: 'video', name, url: koda.media(session.id, 'video', made.jobId), poster };
  },
  // agents make animations of pictures and sounds: of a video they are given its picture
  file: async (_handle, data, koda) => {
    const { session } = koda.sessions.seen(sessionOf(data as AnimationData));
    const made = session && shownOf(session.state);
    if (!session || !made?.jobId) throw new Problem(0, 'NO_FILE', 'There is no video yet whose picture could go along.');
    const picture = await koda.ask<Blob>(`/v1/sessions/${session.id}/thumbnail?job=${made.jobId}`, { as: 'blob' });
    return new File([picture], `${session.id}.jpg`, { type: 'image/jpeg' });
  },
};
