"""Ways from here to sandboxes on other nodes: a socket on this machine for each, behind which a node's door stands.

So whoever shows a preview knows sockets only, wherever the sandbox is. The sockets lie in a folder that is this
process's alone; what a killed process leaves of it is cleared with the machine's other dead folders.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from koda_ray.errors import ServerFailed
from koda_ray.render.isolation import WorkFolder
from koda_ray.sandbox.base import PreviewEndpoint
from koda_ray.sandbox.node_door import DoorAddress, enter
from koda_ray.sandbox.passing import Passing, PassOn, relay_both

__all__ = ["Passages"]

_MOST = 128
_MOST_CONNECTIONS = 4096


class Passages:
    """Makes them, and keeps those that were asked for last.

    Args:
        key: As of `koda_ray.sandbox.node_door.door_key`.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._folder: WorkFolder | None = None
        self._made: dict[DoorAddress, tuple[str, asyncio.Server]] = {}
        self._passing = Passing(most=_MOST_CONNECTIONS)
        self._count = 0
        self._making = asyncio.Lock()

    async def to(self, address: DoorAddress) -> PreviewEndpoint:
        """Return a socket on this machine that leads through a door."""
        async with self._making:
            found = self._made.pop(address, None)
            if found is None:
                if self._folder is None:
                    self._folder = await asyncio.to_thread(WorkFolder, "passage")
                self._count += 1
                path = str(self._folder.path / str(self._count))
                found = path, await asyncio.start_unix_server(self._passing.serve(self._led(address)), path)
            self._made[address] = found  # the newest lies last
            if len(self._made) > _MOST:
                _, oldest = self._made.pop(next(iter(self._made)))
                oldest.close()
        return PreviewEndpoint(socket_path=found[0], base=address.base)

    async def close(self) -> None:
        """Close all, and break off what goes on; may be called twice."""
        made, self._made = self._made, {}
        for _, server in made.values():
            server.close()
        await self._passing.break_off()
        if self._folder is not None:
            await asyncio.to_thread(self._folder.close)
            self._folder = None

    def _led(self, address: DoorAddress) -> PassOn:
        async def lead(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with suppress(ServerFailed):  # whoever connected sees that it ends
                far = await enter(address, self._key)
                try:
                    await relay_both((reader, writer), far)
                finally:
                    far[1].close()

        return lead
