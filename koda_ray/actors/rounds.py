"""Which of a cluster's nodes are due for a round of clearing, so that none is kept busy by being looked after.

A round keeps its node from being idle, and so from being taken away by the autoscaler (`nodes`). So a node is visited
while it works, once after it has stopped, and as long as a sandbox stands there that somebody needs or its disk is
full; then it is left alone until it works again. What an idle node holds of ours does not change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from koda_ray.actors.chores import logged
from koda_ray.actors.nodes import ClusterNode
from koda_ray.actors.reaper import Reaped

__all__ = ["ROUND_S", "Rounds"]

ROUND_S = 60.0
"""How long others are waited for, in seconds; a slower node's round comes to an end later, and is told then."""
_SLACK_S = 5.0  # the head hears a moment later that a node has nothing to do any more


@dataclass
class _Visited:
    """When a node's last round was over, in the loop's seconds, and how many sandboxes were left."""

    at: float
    standing: int


class Rounds:
    """Sends a round of clearing to each node that is due.

    Args:
        here: The node that this runs on, which is cleared by whoever has this.
        look: Finds the nodes that are alive.
        visit: Clears one, by its id; it ends by itself in some time, whatever the node does.
    """

    def __init__(
        self,
        *,
        here: str,
        look: Callable[[], Awaitable[tuple[ClusterNode, ...]]],
        visit: Callable[[str], Awaitable[Reaped]],
    ) -> None:
        self._here = here
        self._look = look
        self._visit = visit
        self._visited: dict[str, _Visited] = {}
        self._under_way: dict[str, asyncio.Task[Reaped | None]] = {}

    async def clear(self, *, wait_s: float = ROUND_S) -> list[Reaped]:
        """Begin the rounds that are due; return what has come to an end, of those begun before too.

        Args:
            wait_s: How long the slowest is waited for, in seconds.

        Raises:
            Unavailable: Nobody says which nodes there are.
        """
        nodes = {node.id: node for node in await self._look() if node.id != self._here}
        self._visited = {name: visited for name, visited in self._visited.items() if name in nodes}
        for node in nodes.values():
            if node.id not in self._under_way and self._is_due(node):
                visiting = logged(self._visit(node.id), "clear a node", node=node.id, address=node.address)
                self._under_way[node.id] = asyncio.create_task(visiting)
        if self._under_way:
            await asyncio.wait(self._under_way.values(), timeout=wait_s)
        return [reaped for name in list(self._under_way) if (reaped := self._ended(name)) is not None]

    def _is_due(self, node: ClusterNode) -> bool:
        if node.status == "draining":  # it takes no work any more, and what it holds goes with it
            return False
        visited = self._visited.get(node.id)
        if visited is None or visited.standing or node.unfit == "full":
            return True
        return node.idle_s < asyncio.get_running_loop().time() - visited.at - _SLACK_S

    def _ended(self, name: str) -> Reaped | None:
        task = self._under_way[name]
        if not task.done():
            return None
        del self._under_way[name]
        reaped = task.result()
        if reaped is not None:
            self._visited[name] = _Visited(asyncio.get_running_loop().time(), reaped.standing)
        return reaped
