"""Processes for tests of the JSON store: ones that hold it, ones that write and are killed.

    python -m tests.state.json_child NAME ARGUMENTS

Starting Python two hundred times takes minutes, so one process, which has loaded everything, forks those to be killed.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import select
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from koda_ray.errors import StorageError
from koda_ray.state.json_files import Files
from koda_ray.state.json_store import JSONStore
from koda_ray.state.records import Batch, SessionRecord
from tests.state import records
from tests.state.child import REPOSITORY, say

WRITERS = 3
ROUNDS_A_FOLDER = 20
COMPACT_BYTES = 8_000
LIFE_S = 60.0

Acknowledged = dict[int, int]
"""How many commits of each writer were acknowledged."""


def start(name: str, *arguments: object) -> subprocess.Popen[str]:
    """Start a child; its output and errors come through one pipe."""
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "tests.state.json_child", name, *map(str, arguments)],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def rows_of(store: JSONStore) -> dict[str, object]:
    """Everything that an open store has in memory."""
    opened = store.database._open
    assert opened is not None
    return {
        table: {owner: rows for owner, rows in owners.items() if rows} for table, owners in opened.tables._rows.items()
    }


class Writers:
    """Sessions that are written side by side; each commit has several parts, so that half of one would be seen."""

    def __init__(self, store: JSONStore, acknowledge: Callable[[int, int], None]) -> None:
        self.store = store
        self.acknowledge = acknowledge

    async def sessions(self) -> list[SessionRecord]:
        """Make what is missing of the sessions, which no kill may double."""
        found: list[SessionRecord] = []
        for writer in range(WRITERS):
            state = records.state()
            row, _ = await self.store.create_session(state, key=f"writer-{writer}", body={})
            found.append(row)
        return found

    async def check(self, acknowledged: Acknowledged) -> Acknowledged:
        """Return how many commits of each writer are there; fails where half of one is, or an acknowledged one not."""
        there: Acknowledged = {}
        for writer, row in enumerate(await self.sessions()):
            events = await self.store.events(row.id, limit=100_000)
            messages = await self.store.messages(row.id)
            beads = await self.store.beads(row.id)
            count = len(messages)
            assert [event.seq for event in events] == list(range(1, 3 * count + 2)), (writer, count, len(events))
            texts = [event.data["text"] for event in events[1:]]
            assert texts == [f"{turn}.{part}" for turn in range(count) for part in range(3)]
            assert [item.position for item in messages] == list(range(count))
            assert [bead.data for bead in beads] == ([{"turn": count - 1}] if count else [])
            assert row.seq == 3 * count + 1
            done = acknowledged.get(writer, 0)
            assert done <= count <= done + 1, f"writer {writer}: {done} acknowledged, {count} there"
            there[writer] = count
        return there

    async def write(self, there: Acknowledged, turns: int) -> None:
        """Commit, all writers at once, and tell what was acknowledged."""
        rows = await self.sessions()

        async def one(writer: int) -> None:
            row = rows[writer]
            for turn in range(there[writer], there[writer] + turns):
                bead = records.bead(row, "1", 0)
                batch = Batch(
                    events=[records.say(f"{turn}.{part}", filler="x" * 200) for part in range(3)],
                    messages=[records.message(row, turn)],
                    beads=[type(bead)(**(vars(bead) | {"data": {"turn": turn}}))],
                )
                await self.store.commit(row.id, row.epoch, batch)
                self.acknowledge(writer, turn)

        await asyncio.gather(*map(one, range(WRITERS)))


def fork(work: Callable[[int], None]) -> tuple[int, int]:
    """Run something in a fork, with the end of a pipe to tell of it; return the process and the other end."""
    told, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(told)
        signal.alarm(int(LIFE_S))  # whoever should have killed it may be gone
        try:
            work(tell)
        except BaseException:
            os.write(tell, f"failed {traceback.format_exc()!r}\n".encode())
        os._exit(0)
    os.close(tell)
    return pid, told


def hear(told: int) -> list[list[str]]:
    """Read all that a fork said until its end."""
    data = b""
    while part := os.read(told, 1 << 16):
        data += part
    os.close(told)
    return [line.split(" ", 2) for line in data.decode().splitlines()]


def note(acknowledged: Acknowledged, said: list[list[str]]) -> bool:
    """Count what was acknowledged; return whether the fork found everything as it should be."""
    for word, *rest in said:
        if word == "failed":
            raise AssertionError(" ".join(rest))
        if word == "there":
            acknowledged.update({int(writer): count for writer, count in json.loads(" ".join(rest)).items()})
        if word == "ack":
            acknowledged[int(rest[0])] = int(rest[1]) + 1
    return any(word == "there" for word, *_ in said)


def writing(folder: Path, acknowledged: Acknowledged, turns: int, files: Files | None = None) -> Callable[[int], None]:
    """What a fork does: open, look whether all is as acknowledged, and write."""

    def work(tell: int) -> None:
        async def run() -> None:
            store = JSONStore(folder, files=files, compact_bytes=COMPACT_BYTES)
            await store.open()
            writers = Writers(store, lambda writer, turn: os.write(tell, f"ack {writer} {turn}\n".encode()) and None)
            there = await writers.check(acknowledged)
            os.write(tell, f"there {json.dumps(there)}\n".encode())
            await writers.write(there, turns)
            await store.close()

        asyncio.run(run())

    return work


def kills(root: str, seed: str, rounds: str) -> None:
    """Kill a fork that writes, at random instants, again and again, and check what it leaves.

    How far each comes is the machine's business: there are more than so many where too little would have come of them.
    """
    chance = random.Random(int(seed))
    began, in_recovery, commits, cuts, kills = time.monotonic(), 0, 0, 0, 0
    acknowledged: Acknowledged = {}
    for turn in range(5 * int(rounds)):
        if turn % ROUNDS_A_FOLDER == 0:
            commits += sum(acknowledged.values())
            acknowledged = {}
            if turn >= int(rounds) < commits and in_recovery > 5:
                break
        kills += 1
        folder = Path(root) / str(turn // ROUNDS_A_FOLDER)
        pid, told = fork(writing(folder, acknowledged, 1_000_000))
        if chance.random() < 0.75:
            select.select([told], [], [], LIFE_S)  # it has opened the store, and is about to write
        time.sleep(chance.random() * 0.03)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        in_recovery += not note(acknowledged, hear(told))
        cuts += sum(not path.read_bytes().endswith(b"\n") for path in folder.glob("log-*.json"))
        if turn % ROUNDS_A_FOLDER == ROUNDS_A_FOLDER - 1:
            pid, told = fork(writing(folder, acknowledged, 1))
            os.waitpid(pid, 0)
            assert note(acknowledged, hear(told)), "the last one did not open"
    commits += sum(acknowledged.values())
    say(kills=kills, in_recovery=in_recovery, commits=commits, torn=cuts, seconds=time.monotonic() - began)


class Dying(Files):
    """A disk that takes its process with it at one call: before, half-way through, or after."""

    def __init__(self, at: int, when: str) -> None:
        self.left = at
        self.when = when

    def _call(self, work: Callable[[], object], half: Callable[[], object] = lambda: None) -> None:
        self.left -= 1
        if self.left == 0:
            if self.when == "during":
                half()
            if self.when == "after":
                work()
            os.kill(os.getpid(), signal.SIGKILL)
        work()

    def write(self, descriptor: int, data: memoryview) -> int:
        self._call(
            lambda: super(Dying, self).write(descriptor, data),
            lambda: super(Dying, self).write(descriptor, data[: len(data) // 2]),
        )
        return len(data)

    def sync(self, descriptor: int) -> None:
        self._call(lambda: super(Dying, self).sync(descriptor))

    def truncate(self, descriptor: int, size_bytes: int) -> None:
        self._call(lambda: super(Dying, self).truncate(descriptor, size_bytes))

    def rename(self, source: Path, target: Path) -> None:
        self._call(lambda: super(Dying, self).rename(source, target))

    def remove(self, path: Path) -> None:
        self._call(lambda: super(Dying, self).remove(path))

    def create(self, path: Path) -> int:
        made: list[int] = []
        self._call(lambda: made.append(super(Dying, self).create(path)))
        return made[0]


def every_call(root: str, when: str) -> None:
    """Kill a fork at each of its calls to the disk in turn: making a store, writing, and turning the log over."""
    at, turns = 0, 8
    while True:
        at += 1
        folder = Path(root) / f"{when}-{at}"
        acknowledged: Acknowledged = {}
        pid, told = fork(writing(folder, acknowledged, turns, Dying(at, when)))
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        note(acknowledged, hear(told))
        # two more, one after the other: what the first mends must be whole for the second
        for _ in range(2):
            pid, told = fork(writing(folder, acknowledged, 1))
            os.waitpid(pid, 0)
            assert note(acknowledged, hear(told)), f"nothing was opened after call {at}"
        if status == 0:
            break
        assert status == -signal.SIGKILL, status
    generations = [path.name for path in folder.glob("snapshot-*")]
    say(calls=at - 1, generations=generations)


def hold(folder: str) -> None:
    """Open a store and keep it."""

    async def run() -> None:
        store = JSONStore(folder)
        try:
            await store.open()
        except StorageError as error:
            say(error=error.message)
            return
        await records.new_session(store)
        say(open=True)
        await asyncio.Event().wait()

    asyncio.run(run())


CHILDREN: dict[str, Callable[..., None]] = {"kills": kills, "every_call": every_call, "hold": hold}

if __name__ == "__main__":
    CHILDREN[sys.argv[1]](*sys.argv[2:])
