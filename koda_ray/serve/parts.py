"""Whether the parts below the API work: looked at once for all who ask in the same second.

Anybody may ask, without a key, and a look writes to the database.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

from koda_ray.errors import KodaError, NotFound, Unavailable
from koda_ray.logs import get_logger
from koda_ray.serve.deps import ApiDeps

__all__ = ["Parts"]

_KEPT_S = 1.0
_log = get_logger(__name__)


class Parts:
    """Looks at the database and the storage, and remembers for a second what was seen.

    Args:
        deps: The application's parts.
    """

    def __init__(self, deps: ApiDeps) -> None:
        self._deps = deps
        self._looking = asyncio.Lock()
        self._seen: Mapping[str, str | None] = {}
        self._kept_until = 0.0

    async def seen(self) -> Mapping[str, str | None]:
        """Return what is wrong with each part by its name; None where nothing is."""
        async with self._looking:
            if time.monotonic() >= self._kept_until:
                self._seen = await self._look()
                self._kept_until = time.monotonic() + _KEPT_S
            return self._seen

    async def _look(self) -> dict[str, str | None]:
        seen: dict[str, str | None] = {}
        for name, check in (("database", self._database), ("storage", self._storage)):
            try:
                await check()
                seen[name] = None
            except (KodaError, OSError) as error:
                _log.warning("not ready", part=name, error=str(error))
                seen[name] = str(error)
        return seen

    async def _database(self) -> None:
        found = await self._deps.store.health()
        if not found.ok:
            raise Unavailable(f"the database ({found.backend}) does not work: {found.detail}")

    async def _storage(self) -> None:
        try:
            await self._deps.storage.size("ready")
        except NotFound:
            return
