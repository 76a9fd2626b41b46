import { expectTypeOf, test } from 'vitest';
import type { AgentPlugin } from '../../node/src/plugin';
import type { NodeSession, SessionEvent } from '../../node/src/session';
import type { Envelope, Schemas, SessionView } from './client';

test('what the node reads is what the server says', () => {
  expectTypeOf<SessionView>().toExtend<NodeSession>();
  expectTypeOf<Envelope>().toExtend<SessionEvent>();
  expectTypeOf<Schemas['AgentPlugin']>().toExtend<AgentPlugin>();
});
