"""Jobs that render the same frames at the same time share them: each says which units it captures, and takes others.

A claim is a small object in storage beside the units, one for each job. There is no lock. A job writes what it wants,
then reads what others want, and holds a unit only after it read that nobody else names it, and says so: of two, the
one that wrote later reads the other's. Where both read the other's, the later in the order of time and name lets go,
and the earlier waits for that, since the other may not have seen it. So clocks decide who has a unit, and never that
two have. A job that died stops renewing its claim, and others take over what it had.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import cast

from koda_ray.cancellation import end_all
from koda_ray.errors import KodaError, NotFound
from koda_ray.logs import get_logger
from koda_ray.render.retry import RetryingStorage
from koda_ray.state.keys import claim_key, film_prefix
from koda_ray.types import now

__all__ = ["Claim", "Claims"]

_log = get_logger(__name__)
RENEW_S = 4.0
STALE_S = 15.0
_ASK_S = 0.05
_LAST_S = 2.0


@dataclass(frozen=True, order=True)
class Claim:
    """That a job wants a unit; claims are ordered by who comes first.

    Args:
        at: Since when, in seconds since 1970.
        job_id: Who.
        held: Whether it has read that nobody else wants it.
    """

    at: float
    job_id: str
    held: bool = False


class Claims:
    """One job's claims on units of one frame grid; a context manager, which gives them up.

    Args:
        storage: Where the units are.
        user_id: Whose they are.
        job_id: Who claims.
        grid: Names the grid: equal for jobs whose units have equal keys.
    """

    def __init__(self, storage: RetryingStorage, *, user_id: str, job_id: str, grid: str) -> None:
        self._storage = storage
        self._user_id = user_id
        self._job_id = job_id
        self._grid = grid
        self._mine: dict[int, Claim] = {}
        self._writing = asyncio.Lock()
        self._renewing: asyncio.Task[None] | None = None
        self._next: asyncio.Task[None] | None = None
        self._writes: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Claims:
        self._renewing = asyncio.create_task(self._renew())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._renewing is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LAST_S):
                    await self._writing.acquire()  # for good: what is written after it is removed would stay
            await end_all((self._renewing, *self._writes))
        with contextlib.suppress(KodaError):  # no job waits to end for that: it goes stale by itself
            await self._storage.once.delete(self._key)

    async def take(self, units: Iterable[int]) -> set[int]:
        """Claim units, and return those that nobody claimed before.

        Raises:
            StorageError: Storage failed.
        """
        wanted = {unit: Claim(now().timestamp(), self._job_id) for unit in units if unit not in self._mine}
        self._mine |= wanted
        await self._write()
        taken: set[int] = set()
        while wanted:
            others = await self.others()
            clear = {unit for unit in wanted if unit not in others}
            lost = {
                unit
                for unit, claim in wanted.items()
                if any(other.held or other < claim for other in others.get(unit, ()))
            }
            for unit in clear:
                self._mine[unit] = replace(wanted[unit], held=True)
            for unit in lost:
                self.give_up(unit)
            taken |= clear
            wanted = {unit: claim for unit, claim in wanted.items() if unit not in clear | lost}
            if clear or lost:  # those who wait to hear it can
                self._write_next()
            if wanted:  # by others too, who came later and may not have seen it: they hold it, or let go
                await asyncio.sleep(_ASK_S)
        return taken

    def give_up(self, unit: int) -> None:
        """Release a unit: it is stored, or will not be."""
        self._mine.pop(unit, None)

    async def others(self) -> dict[int, list[Claim]]:
        """Return what other living jobs want or hold.

        Raises:
            StorageError: Storage failed.
        """
        found: dict[int, list[Claim]] = {}
        keys = await self._storage.list(f"{film_prefix(self._user_id, self._grid)}/claims")
        for key in keys:
            if key == self._key:
                continue
            with contextlib.suppress(NotFound, ValueError, KeyError, TypeError):
                said = cast("dict[str, object]", json.loads(await self._storage.get(key)))
                if now().timestamp() - float(cast("float", said["at"])) > STALE_S:
                    continue
                for unit, (at, held) in cast("dict[str, tuple[float, bool]]", said["units"]).items():
                    found.setdefault(int(unit), []).append(Claim(float(at), str(said["job"]), held is True))
        return found

    @property
    def _key(self) -> str:
        return claim_key(self._user_id, self._grid, self._job_id)

    async def _write(self) -> None:
        """Have it written what is claimed now; whoever comes before a write begins has part in it."""
        await asyncio.shield(self._write_next())

    def _write_next(self) -> asyncio.Task[None]:
        if self._next is None:
            self._next = asyncio.create_task(self._write_in_turn())
            self._writes.add(self._next)
            self._next.add_done_callback(self._written)
        return self._next

    def _written(self, write: asyncio.Task[None]) -> None:
        self._writes.discard(write)
        if not write.cancelled() and (error := write.exception()) is not None:  # nobody may be waiting for it
            _log.info("claims not written", job_id=self._job_id, error=f"{type(error).__name__}: {error}")

    async def _write_in_turn(self) -> None:
        async with self._writing:  # in order: an older one must not come after a newer one
            await self._storage.await_turn(self._key)
            self._next = None
            units = {str(unit): (claim.at, claim.held) for unit, claim in self._mine.items()}
            data = json.dumps({"job": self._job_id, "at": now().timestamp(), "units": units}).encode()
            await self._storage.put(self._key, data, synced=False)  # no job outlives a power cut either

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(RENEW_S)
            if self._mine:
                with contextlib.suppress(KodaError):
                    await self._write()
