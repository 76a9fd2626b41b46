import { expect, test } from 'vitest';
import { SseDecoder } from './sse';

test('events come whole, however their bytes arrive', () => {
  const text = 'id: 1.4\nevent: THINKING\ndata: {"a":\ndata: 1}\n\n: a comment\n\nid: 2.4\n\nevent: gone\r\ndata:x\r\n\r\n';
  for (let size = 1; size < text.length; size += 1) {
    const decoder = new SseDecoder();
    const found = [];
    for (let at = 0; at < text.length; at += size) found.push(...decoder.feed(text.slice(at, at + size)));
    expect(found).toEqual([
      { id: '1.4', event: 'THINKING', data: '{"a":\n1}' },
      { id: '2.4', event: 'gone', data: 'x' },
    ]);
    expect(decoder.lastId).toBe('2.4');
  }
});
