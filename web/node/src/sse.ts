/** Server-sent events out of a body that arrives in pieces. Source: WHATWG HTML, section 9.2.6. */
export interface ServerSentEvent {
  id: string;
  event: string;
  data: string;
}

export class SseDecoder {
  /** The id to come back with; one that came without an event counts too. */
  lastId = '';
  private left = '';
  private event = '';
  private data: string[] = [];

  feed(text: string): ServerSentEvent[] {
    const found: ServerSentEvent[] = [];
    const lines = (this.left + text).split(/\r\n|\n|\r(?!$)/);
    this.left = lines.pop() ?? '';
    for (const line of lines) {
      if (line === '') {
        if (this.data.length > 0) found.push({ id: this.lastId, event: this.event || 'message', data: this.data.join('\n') });
        this.event = '';
        this.data = [];
        continue;
      }
      const colon = line.indexOf(':');
      if (colon === 0) continue;
      const field = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
      if (field === 'id') this.lastId = value;
      else if (field === 'event') this.event = value;
      else if (field === 'data') this.data.push(value);
    }
    return found;
  }
}
