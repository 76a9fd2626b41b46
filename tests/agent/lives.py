"""Lives that SIGKILL ends at every instant that they have, once each, and what comes after each: a life to the end.

An instant is a step of a model's answer, or before or after a commit. Processes are forked, so that none loads
everything again.
"""

from __future__ import annotations

import asyncio
import os
import signal
import traceback
from collections.abc import Awaitable, Callable

from koda_ray.events import Envelope
from koda_ray.state.json_store import JSONStore
from koda_ray.state.records import Batch
from koda_ray.state.sql import SqlStore
from koda_ray.state.store import Store

__all__ = ["Instants", "every_instant", "store_at"]

_KILLED = -signal.SIGKILL


class Instants:
    """Counts the instants of one process, which ends at one of them."""

    def __init__(self, dies_at: int) -> None:
        self._dies_at = dies_at
        self._passed = 0

    def tick(self) -> None:
        """Come to the next instant."""
        self._passed += 1
        if self._passed == self._dies_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def store(self, url: str) -> Store:
        """Make a store whose commits have an instant before and one after them."""
        store = store_at(url)
        commit = store.commit

        async def ticking(session_id: str, epoch: int, batch: Batch) -> list[Envelope]:
            self.tick()
            made = await commit(session_id, epoch, batch)
            self.tick()
            return made

        store.commit = ticking  # type: ignore[method-assign]
        return store


def store_at(url: str) -> Store:
    """Make the store that a name means; ``json:PATH`` is a JSON store."""
    return JSONStore(url.removeprefix("json:")) if url.startswith("json:") else SqlStore(url)


def every_instant(live: Callable[[Instants, str], Awaitable[None]]) -> int:
    """Kill a life at each instant that it has, with another that goes on; return how many there were.

    Args:
        live: Lives under a name; the one that goes on has the same.
    """
    instant = 1
    while (ended := _lived(live, f"life {instant}", instant)) == _KILLED:
        if _lived(live, f"life {instant}", 0) != 0:
            raise SystemExit(f"killed at instant {instant}, it did not go on")
        instant += 1
    if ended != 0:
        raise SystemExit(f"the life of {instant} instants failed")
    return instant


def _lived(live: Callable[[Instants, str], Awaitable[None]], name: str, dies_at: int) -> int:
    """Live in a process of its own; return how that ended."""

    async def life() -> None:
        await live(Instants(dies_at), name)

    child = os.fork()
    if child == 0:
        status = 1
        try:
            asyncio.run(life())
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
