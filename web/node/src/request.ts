/** What an animation node asks for: its words, or those that come in, its settings, and the files that go with them. */
import type { Given } from './context';
import type { CreateSession } from './koda';
import type { NodeData } from './registry';

/** What an animation node is kept as. */
export interface AnimationData extends NodeData {
  sessionId?: string | undefined;
  /** What was typed into it; words that come in through its handle come first. */
  prompt?: string | undefined;
  settings?: Record<string, string | number>;
  collapsed?: boolean;
  /** A request whose answer has not come: sent again unchanged, it is the same request. */
  sent?: { asked: string; key: string; body: CreateSession } | undefined;
}

/** A request without its files, which are uploaded when it is made. */
export function requestOf(data: AnimationData, given: readonly Given[]): CreateSession {
  const words = (handle: string) =>
    given.flatMap(({ handle: into, value }) => (into === handle && value?.type === 'text' && value.text.trim() ? [value.text.trim()] : [])).join('\n\n');
  const body: CreateSession = { prompt: words('prompt') || (data.prompt ?? '').trim() };
  const style = words('style');
  if (style) body.style = style;
  for (const [place, value] of Object.entries(data.settings ?? {})) {
    const [part, name] = place.split('.');
    if ((part === 'options' || part === 'render') && name) body[part] = { ...body[part], [name]: value };
  }
  return body;
}

/** The files that come in, as far as there is something at the other end. */
export function filesOf(given: readonly Given[]): Given[] {
  return given.filter(({ handle, value }) => handle === 'assets' && value && value.type !== 'text');
}

/** What is asked for, as text: the same for the same request. */
export function askedFor(body: CreateSession, files: readonly Given[]): string {
  return JSON.stringify([body, files.map(({ source, sourceHandle, value }) => [source, sourceHandle, value && 'name' in value ? value.name : ''])]);
}
