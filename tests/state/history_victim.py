"""Processes that go back or fork and are killed on the way: ``python -m tests.state.history_victim``.

It reads lines ``STORE PATH ACTION SESSION POINT INSTANT``, and for each forks a child that does the action and sends
itself SIGKILL at the given instant (0 for never): each SQL statement and each commit, or each call to the disk of the
JSON store, a write also half done. It answers each line with how the child ended. Forking before there are threads
costs a few milliseconds a death, not a second.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import traceback
from pathlib import Path

from sqlalchemy import Engine, event

from koda_ray.state.json_files import Files
from koda_ray.state.json_store import JSONStore
from koda_ray.state.sql import SqlStore
from koda_ray.state.store import Store
from koda_ray.types import now
from tests.state.conformance.history import back, forked
from tests.state.records import SOON


class CommitClock:
    """Counts instants from when it is armed, and ends this process at the chosen one."""

    def __init__(self, dies_at: int) -> None:
        self.dies_at = dies_at
        self.now = 0
        self.armed = False

    @property
    def strikes_next(self) -> bool:
        return self.armed and self.now + 1 == self.dies_at

    def tick(self) -> None:
        if self.armed:
            self.now += 1
            if self.now == self.dies_at:
                os.kill(os.getpid(), signal.SIGKILL)


class DyingFiles(Files):
    def __init__(self, clock: CommitClock) -> None:
        self.clock = clock

    def write(self, descriptor: int, data: memoryview) -> int:
        self.clock.tick()
        if self.clock.strikes_next:
            super().write(descriptor, data[: len(data) // 2])
        self.clock.tick()
        return super().write(descriptor, data)

    def sync(self, descriptor: int) -> None:
        self.clock.tick()
        super().sync(descriptor)
        self.clock.tick()


def opened(kind: str, path: str, clock: CommitClock) -> Store:
    if kind == "json":
        return JSONStore(path, files=DyingFiles(clock))
    event.listen(Engine, "before_cursor_execute", lambda *_: clock.tick())
    event.listen(Engine, "commit", lambda _: clock.tick())
    return SqlStore(Path(path) / "koda.db")


async def act(kind: str, path: str, action: str, session_id: str, point: str, dies_at: str) -> None:
    clock = CommitClock(int(dies_at))
    store = opened(kind, path, clock)
    await store.open()
    if action == "rewind":
        row = await store.activate(session_id, host="h", lease_until=now() + SOON)
        clock.armed = True
        await store.rewind(session_id, row.epoch, point, back)
    else:
        clock.armed = True
        await store.fork(session_id, user_id="ann", point=point, key="fork", body={}, plan=forked)
    clock.tick()
    clock.armed = False
    await store.close()


def main() -> None:
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            try:
                asyncio.run(act(*line.split()))
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
