import { expect, test } from 'vitest';
import { Problem } from './client';
import type { Process } from './sandboxes';
import { COMMAND, leavesAt, newName, Shell, shellWords, socketOf, type Standing, standingOf, WAITS_S, Wheel } from './shell';

const PROCESS: Process = { sandboxId: 'sbx_1', name: 'terminal-1', command: 'sh', state: 'running', exitCode: null, endedAt: null, createdAt: '2026-01-01T00:00:00Z', eventsUrl: '/' };
const GONE = new Problem(404, 'SANDBOX_NOT_FOUND', 'its time was over');

class Socket {
  readyState = 0;
  sent: unknown[] = [];
  binaryType = '';
  onopen = () => {};
  onclose = () => {};
  onmessage = (_: { data: unknown }) => {};
  constructor(readonly address: string) {}
  opens() {
    this.readyState = 1;
    this.onopen();
  }
  send(data: unknown) {
    this.sent.push(data);
  }
  close() {
    this.readyState = 3;
    this.onclose();
  }
}

/** A shell, and what is told of it and asked for it; `answers` are given to requests, in order. */
function opened(...answers: (object | Problem)[]) {
  const sockets: Socket[] = [];
  const standings: Standing[] = [];
  const shown: number[] = [];
  const asked: string[] = [];
  const ended: string[] = [];
  const shell = new Shell(
    'sbx_1',
    { rows: 20, columns: 70 },
    { shows: (data) => shown.push(...data), stands: (standing) => standings.push(standing), lists: () => {} },
    {
      page: 'https://koda.test/sandboxes/sbx_1',
      ask: async <T>(address: string, how: { method?: string } = {}) => {
        asked.push(`${how.method ?? 'GET'} ${address}`);
        const answer = answers.shift();
        if (answer instanceof Problem) throw answer;
        return answer as T;
      },
      connect: (address) => {
        const socket = new Socket(address);
        sockets.push(socket);
        return socket as unknown as WebSocket;
      },
      end: async (address) => void ended.push(address),
    },
  );
  return { shell, sockets, standings, shown, asked, ended };
}

const settled = () => new Promise((done) => setTimeout(done));

test('a socket is found beside its page, and encrypted where that is', () => {
  const size = { rows: 20, columns: 70 };
  expect(socketOf('http://127.0.0.1:8420/sandboxes/sbx_1', 'sbx_1', 'a', size)).toBe(`ws://127.0.0.1:8420/v1/sandboxes/sbx_1/processes/a/terminal?rows=20&columns=70&unusedS=${WAITS_S}`);
  expect(socketOf('https://koda.test/', 'sbx_1', 'a', size)).toMatch(/^wss:\/\/koda\.test\/v1/);
});

test('a name is one of a process', () => {
  expect(newName()).toMatch(/^terminal-[a-z0-9]{4}$/);
  expect(COMMAND).not.toContain('\n');
});

test('a wheel turns by a few lines, and what is left of it counts until it turns back', () => {
  const wheel = new Wheel();
  expect([20, 20, 20, 100].map((moved) => wheel.turns(moved, 15))).toEqual([0, 0, 1, 2]);
  expect([-40, -10].map((moved) => wheel.turns(moved, 15))).toEqual([0, -1]);
});

test('what was shown last stays once its tmux has left it', () => {
  const encoder = new TextEncoder();
  expect(leavesAt(encoder.encode('é end\u001b[H\u001b[2J\u001b[?25h\u001b[?1049l[detached]'))).toBe(6);
  expect(leavesAt(encoder.encode('\u001b[H\u001b[2J$ '))).toBeUndefined(); // somebody has cleared it
});

test('a connection that ended is told by how its shell stands', () => {
  expect(standingOf({ ...PROCESS, state: 'ended', exitCode: 3 })).toEqual({ is: 'ended', code: 3 });
  expect(standingOf({ ...PROCESS, state: 'lost' })).toEqual({ is: 'ended', code: null });
  expect(standingOf(PROCESS)).toEqual({ is: 'lost' });
  expect(standingOf(GONE)).toEqual({ is: 'refused', problem: GONE });
  expect(standingOf(new Problem(404, 'NOT_FOUND', 'no process')).is).toBe('gone');
  expect(standingOf(new Problem(0, 'UNREACHABLE', 'nobody answers')).is).toBe('lost');
});

test('it is said how it stands', () => {
  expect(shellWords({ is: 'ended', code: 3 })).toBe('The shell has ended with 3.');
  expect(shellWords({ is: 'ended', code: null })).toBe('The shell has ended.');
  expect(shellWords({ is: 'open' })).toBe('');
  expect(shellWords({ is: 'lost' })).toContain(`${['no', 'one', 'two'][WAITS_S / 60]} minutes`);
});

test('what is typed goes there once it is open, with the size that it has by then', async () => {
  const { shell, sockets, standings, shown } = opened(PROCESS);
  await shell.begin();
  const socket = sockets[0]!;
  shell.type(new Uint8Array([1]));
  shell.resize({ rows: 30, columns: 90 });
  expect(socket.sent).toEqual([]);
  socket.opens();
  shell.type(new Uint8Array([2]));
  shell.resize({ rows: 31, columns: 91 });
  socket.onmessage({ data: new Uint8Array([3]).buffer });
  expect(socket.sent).toEqual(['{"rows":30,"columns":90}', new Uint8Array([1]), new Uint8Array([2]), '{"rows":31,"columns":91}']);
  expect(shown).toEqual([3]);
  expect(standings.map(({ is }) => is)).toEqual(['beginning', 'beginning', 'open']);
});

test('one that ended by itself is forgotten once its code is known', async () => {
  const { shell, sockets, standings, ended } = opened(PROCESS, { ...PROCESS, state: 'ended', exitCode: 3 });
  await shell.begin();
  sockets[0]!.opens();
  sockets[0]!.close();
  await settled();
  expect(standings.at(-1)).toEqual({ is: 'ended', code: 3 });
  expect(ended).toHaveLength(1);
});

test('one that is lost is connected to again, and what the old connection says counts no more', async () => {
  const { shell, sockets, standings, ended, asked } = opened(PROCESS, PROCESS);
  await shell.begin();
  sockets[0]!.opens();
  shell.hangUp();
  await settled();
  expect(standings.at(-1)).toEqual({ is: 'lost' });
  shell.connect();
  sockets[1]!.opens();
  sockets[0]!.onclose();
  await settled();
  expect(standings.at(-1)).toEqual({ is: 'open' });
  expect(sockets[1]!.address.split('?')[0]).toBe(sockets[0]!.address.split('?')[0]);
  expect([ended.length, asked.length]).toEqual([0, 2]);
});

test('where none can begin the server says why', async () => {
  const { shell, sockets, standings } = opened(GONE);
  await shell.begin();
  expect(standings.at(-1)).toEqual({ is: 'refused', problem: GONE });
  expect(sockets).toHaveLength(0);
});

test('one that is left ends once, and tells nothing more', async () => {
  const { shell, sockets, standings, ended } = opened(PROCESS);
  await shell.begin();
  sockets[0]!.opens();
  await Promise.all([shell.leave(), shell.leave()]);
  expect(ended).toEqual([expect.stringMatching(/^\/v1\/sandboxes\/sbx_1\/processes\/terminal-/)]);
  expect(standings.at(-1)).toEqual({ is: 'open' });
});

test('one that is left while it begins ends as well', async () => {
  const { shell, sockets, ended } = opened(PROCESS);
  const beginning = shell.begin();
  await shell.leave();
  await beginning;
  expect(sockets).toHaveLength(0);
  expect(ended.length).toBeGreaterThan(0);
});
