"""Jobs that render the same frames at the same time share them: each says which units it captures, and takes others.

A claim is a small object in storage beside the units, one for each job. There is no lock: a claim is written, then all
are read, and where two want a unit the earlier one has it. Clocks that differ can at worst make two jobs capture the
same unit, which gives the same bytes under the same name. A job that died stops renewing its claim, and others take
over what it had.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Iterable
from typing import cast

from koda_ray.errors import KodaError
from koda_ray.render.patience import patiently
from koda_ray.state.storage import Storage, claim_key, film_prefix

__all__ = ["Claims"]

RENEW_S = 4.0
STALE_S = 15.0


class Claims:
    """One job's claims on units of one frame grid; a context manager, which gives them up.

    Args:
        storage: Where the units are.
        user_id: Whose they are.
        job_id: Who claims.
        grid: Names the grid: equal for jobs whose units have equal keys.
    """

    def __init__(self, storage: Storage, *, user_id: str, job_id: str, grid: str) -> None:
        self._storage = storage
        self._user_id = user_id
        self._job_id = job_id
        self._grid = grid
        self._mine: dict[int, float] = {}
        self._renewing: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Claims:
        self._renewing = asyncio.create_task(self._renew())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.gather(self._renewing, return_exceptions=True)
        with contextlib.suppress(KodaError):  # it goes stale by itself
            await self._storage.delete(self._key)

    async def take(self, units: Iterable[int]) -> set[int]:
        """Claim units, and return those that nobody claimed before.

        Raises:
            StorageError: Storage failed.
        """
        wanted = {unit: time.time() for unit in units if unit not in self._mine}
        self._mine |= wanted
        await self._write()
        taken = await self.others()
        lost = {unit for unit, at in wanted.items() if unit in taken and taken[unit] <= (at, self._job_id)}
        if lost:
            for unit in lost:
                self._mine.pop(unit, None)
            await self._write()
        return set(wanted) - lost

    def give_up(self, unit: int) -> None:
        """Release a unit: it is stored, or will not be."""
        self._mine.pop(unit, None)

    async def others(self) -> dict[int, tuple[float, str]]:
        """Return what other living jobs claim: each unit with when and by whom.

        Raises:
            StorageError: Storage failed.
        """
        found: dict[int, tuple[float, str]] = {}
        keys = await patiently(lambda: self._storage.list(f"{film_prefix(self._user_id, self._grid)}/claims"))
        for key in keys:
            if key == self._key:
                continue
            with contextlib.suppress(KodaError, ValueError, KeyError, TypeError):
                claim = cast("dict[str, object]", json.loads(await self._storage.get(key)))
                if time.time() - float(cast("float", claim["at"])) > STALE_S:
                    continue
                for unit, at in cast("dict[str, float]", claim["units"]).items():
                    mine = (at, str(claim["job"]))
                    found[int(unit)] = min(mine, found.get(int(unit), mine))
        return found

    @property
    def _key(self) -> str:
        return claim_key(self._user_id, self._grid, self._job_id)

    async def _write(self) -> None:
        units = {str(unit): at for unit, at in self._mine.items()}
        data = json.dumps({"job": self._job_id, "at": time.time(), "units": units}).encode()
        await patiently(lambda: self._storage.put(self._key, data))

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(RENEW_S)
            if self._mine:
                with contextlib.suppress(KodaError):
                    await self._write()
