import type { QueryClient } from '@tanstack/react-query';
import { describe, expect, it } from 'vitest';
import { Problem } from './client';
import { canUndo, Deletions } from './deleted';

const BALL = { id: 'ses_1', title: 'A ball' };

/** A server that answers when it is told to, and what it was asked. */
function server() {
  const asked: string[] = [];
  const answers: ((problem?: Problem) => void)[] = [];
  const read: object[] = [];
  const ask = (path: string, { method }: { method?: string } = {}) => {
    asked.push(`${method} ${path}`);
    return new Promise<void>((done, failed) => answers.push((problem) => (problem ? failed(problem) : done())));
  };
  const client = { invalidateQueries: async (what: object) => void read.push(what), removeQueries: () => undefined };
  const answer = async (problem?: Problem) => {
    answers.shift()?.(problem);
    await new Promise((done) => setTimeout(done));
  };
  return { deletions: new Deletions(ask as never), client: client as unknown as QueryClient, asked, answer, read };
}

describe('Deletions', () => {
  it('hides what is deleted at once, and asks the server to hold it back', async () => {
    const { deletions, client, asked, answer, read } = server();
    const removed = deletions.remove(BALL, client);
    expect([deletions.isHidden(BALL.id), deletions.shown]).toEqual([true, [BALL]]);
    await deletions.remove(BALL, client); // a double click is one deletion
    await answer();
    await removed;
    expect(asked).toEqual(['DELETE /v1/sessions/ses_1?undoS=600']);
    expect([read.length, deletions.isHidden(BALL.id)]).toEqual([1, false]); // the list is without it by now
  });

  it('says nothing of it to another person, also where it is answered only then', async () => {
    const { deletions, client, answer, read } = server();
    const removed = deletions.remove(BALL, client);
    deletions.forget();
    await answer(new Problem(503, 'X', 'not now'));
    await removed;
    expect([deletions.shown, deletions.said, deletions.isHidden(BALL.id), read]).toEqual([[], '', false, []]);
  });

  it('has it back once the deletion has reached the server, and not before', async () => {
    const { deletions, client, asked, answer } = server();
    const back: string[] = [];
    deletions.hear((id) => back.push(id));
    void deletions.remove(BALL, client);
    const undone = deletions.undo(BALL.id, client);
    await new Promise((done) => setTimeout(done));
    expect(asked).toHaveLength(1);
    await answer();
    expect(asked.at(-1)).toBe('POST /v1/sessions/ses_1/restore');
    expect(deletions.isHidden(BALL.id)).toBe(true); // as it is not in any list yet
    await answer();
    expect([await undone, back]).toEqual([true, [BALL.id]]);
    expect([deletions.isHidden(BALL.id), deletions.shown, deletions.said]).toEqual([false, [], 'It is back: A ball']);
  });

  it('shows again what was not deleted, and why, also where nobody waits for it any more', async () => {
    const { deletions, client, answer } = server();
    void deletions.remove(BALL, client);
    deletions.leave(BALL.id);
    expect(deletions.shown).toEqual([]);
    await answer(new Problem(503, 'UNAVAILABLE', 'Come back later.'));
    expect(deletions.isHidden(BALL.id)).toBe(false);
    expect(deletions.shown.map(({ problem }) => problem)).toEqual(['“A ball” was not deleted. Come back later.']);
  });

  it('can be asked again to have it back, where that could not be done just then', async () => {
    const { deletions, client, answer, read } = server();
    void deletions.remove(BALL, client);
    await answer();
    for (const problem of [new Problem(429, 'LIMIT_REACHED', 'No room.'), new Problem(0, 'UNREACHABLE', 'No answer.')]) {
      const undone = deletions.undo(BALL.id, client);
      await new Promise((done) => setTimeout(done));
      expect(deletions.shown.map(canUndo)).toEqual([false]); // it is under way
      await answer(problem);
      expect(await undone).toBe(false);
      expect(deletions.shown).toMatchObject([{ ...BALL, problem: `“A ball” did not come back. ${problem.message}` }]);
      expect(deletions.shown.map(canUndo)).toEqual([true]);
      expect(deletions.isHidden(BALL.id)).toBe(false); // lists know whether it is back, and are read again
    }
    expect(read).toHaveLength(3);
    const undone = deletions.undo(BALL.id, client);
    await new Promise((done) => setTimeout(done));
    await answer();
    expect(await undone).toBe(true);
    expect(deletions.shown).toEqual([]);
  });

  it('does not say that something was not deleted where it is not known, and offers the way back', async () => {
    const { deletions, client, asked, answer, read } = server();
    void deletions.remove(BALL, client);
    await answer(new Problem(0, 'UNREACHABLE', 'No answer.'));
    expect(deletions.shown).toMatchObject([{ ...BALL, problem: '“A ball” may be deleted. No answer.' }]);
    expect([deletions.shown.map(canUndo), deletions.isHidden(BALL.id), read.length]).toEqual([[true], false, 1]);
    const undone = deletions.undo(BALL.id, client);
    await new Promise((done) => setTimeout(done));
    await answer();
    expect([await undone, asked.at(-1)]).toEqual([true, 'POST /v1/sessions/ses_1/restore']);
  });

  it('says when it was too late', async () => {
    const { deletions, client, answer } = server();
    void deletions.remove(BALL, client);
    await answer();
    const undone = deletions.undo(BALL.id, client);
    await new Promise((done) => setTimeout(done));
    await answer(new Problem(404, 'NOT_FOUND', "no session 'ses_1'"));
    expect(await undone).toBe(false);
    expect(deletions.shown[0]?.problem).toBe("“A ball” did not come back. no session 'ses_1'");
    expect(deletions.shown.map(canUndo)).toEqual([false]);
  });
});
