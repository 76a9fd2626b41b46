/** The animation node, as the registry has it. */
import { AnimationNode } from './animation-node';
import { animationGeneratorPlugin } from './animation-generator';
import { titleOf } from './animation';
import { Problem } from './http';
import type { Entry } from './registry';
import type { AnimationData } from './request';
import { shownOf } from './session';

const FILMS: ReadonlyMap<string, string> = new Map([
  ['video/mp4', 'mp4'],
  ['video/webm', 'webm'],
]);
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
  // what cannot be a part of a page, such as frames in a zip, is given by its picture
  file: async (handle, data, koda) => {
    const { session } = koda.sessions.seen(sessionOf(data as AnimationData));
    const made = session && shownOf(session.state);
    if (!session || !made?.jobId) throw new Problem(0, 'NO_FILE', 'There is no video yet that could go along.');
    const media = (what: string) => koda.ask<Blob>(`/v1/sessions/${session.id}/${what}job=${made.jobId}`, { as: 'blob' });
    const video = handle === 'thumbnail' ? undefined : await media('video?here=true&');
    const kind = video && FILMS.get(video.type);
    if (kind) return new File([video], `${session.id}.${kind}`, { type: video.type });
    return new File([await media('thumbnail?')], `${session.id}.jpg`, { type: 'image/jpeg' });
  },
};
