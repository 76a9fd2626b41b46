"""What a session shows of its sandbox to whoever is on another node: a door, opened when the first one asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import ray

if TYPE_CHECKING:
    from koda_ray.sandbox.base import PreviewEndpoint
    from koda_ray.sandbox.node_door import DoorAddress, NodeDoor

__all__ = ["SessionDoor"]


class SessionDoor:
    """The door of the process that a session is in, which is where its sandbox is."""

    def __init__(self) -> None:
        self._door: NodeDoor | None = None

    async def seen_from(self, node: str, endpoint: PreviewEndpoint) -> PreviewEndpoint | DoorAddress:
        """Return how an endpoint of this machine is reached from a node, by Ray's id of it.

        Raises:
            Missing: It is another node, and this one has no KODA_SIGNING_KEY.
        """
        from koda_ray.config import Settings
        from koda_ray.sandbox.node_door import NodeDoor, door_key

        if endpoint.url is not None or node == _context().get_node_id():
            return endpoint
        if self._door is None:
            secret = Settings().signing_key
            key = door_key(None if secret is None else secret.get_secret_value().encode())
            self._door = NodeDoor(str(_node_address()), key)
        return await self._door.to(endpoint)

    async def close(self) -> None:
        """Shut it; may be called twice."""
        door, self._door = self._door, None
        if door is not None:
            await door.close()


# Ray's own types for these are incomplete
_RAY = cast("Any", ray)
_context, _node_address = _RAY.get_runtime_context, _RAY.util.get_node_ip_address
