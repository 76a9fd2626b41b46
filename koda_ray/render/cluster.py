"""What browsers a Ray cluster has: looked at now and then, since machines come and go while something is rendered.

The cluster's answer may be long in coming, so it is asked for in a thread, and whoever wants to know gets what was last
heard. Whether more machines can come, Ray does not say: its autoscaler's file is its own. A setting does.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import cache
from typing import Any, cast

import ray
from ray.exceptions import RayError

from koda_ray.errors import Missing
from koda_ray.logs import get_logger
from koda_ray.render.protocol import Slots
from koda_ray.resources import CHROMIUM_RESOURCE, URGENT_RESOURCE

__all__ = ["BrowserSlots", "browsers_here"]

_EVERY_S = 2.0
_log = get_logger(__name__)


class BrowserSlots:
    """The slots for browsers of the cluster that this process is connected to; making it asks the cluster, and blocks.

    Args:
        workers: How many tasks are to be under way at once; as many as there are slots when None.
        most: How many slots the cluster may grow to; it does not grow when None.
    """

    def __init__(self, *, workers: int | None, most: int | None) -> None:
        self._workers = workers
        self._most = most or 0
        self._now = self._urgent = 0
        self._heard = False
        self._expected = most is not None
        self._empty_since = self._looked_at = time.monotonic()
        self._looking: asyncio.Future[None] | None = None
        self._look()

    async def check(self) -> None:
        """See that a task may wait for a slot: one was there, or may come. A head that is away says nothing against it.

        Raises:
            Missing: The cluster says that it has none, never had one as far as this process knows, and does not grow.
        """
        if self._expected:
            return
        await asyncio.to_thread(self._look)
        if self._heard and not self._expected:
            raise Missing(
                f"no Ray node has the resource {CHROMIUM_RESOURCE!r}: start Ray with "
                f'resources={{"{CHROMIUM_RESOURCE}": 2}} (browsers at once on that node), or, where such nodes are '
                "started when there is work for them, set KODA_BROWSERS_MAX to how many browsers they come to"
            )

    @property
    def slots(self) -> Slots:
        """How many tasks can be under way at once, as last heard."""
        self._look_again()
        now = self._workers or self._now
        empty_s = None if self._now else time.monotonic() - self._empty_since
        return Slots(now, self._workers or max(self._most, now), empty_s, self._urgent or None)

    @property
    def has_urgent(self) -> bool:
        """Whether what somebody waits for has slots of its own."""
        self._look_again()
        return self._urgent > 0

    def _look_again(self) -> None:
        """Have the cluster asked in the background, where the last answer is old and nobody asks already."""
        asked = self._looking is not None and not self._looking.done()
        if not asked and time.monotonic() - self._looked_at >= _EVERY_S:
            self._looking = asyncio.get_running_loop().run_in_executor(None, self._look)

    def _look(self) -> None:
        try:
            found = _cluster_resources()
        except (RayError, RuntimeError, OSError) as error:  # the head is away: what was known stays
            _log.info("the cluster does not say what it has", error=f"{type(error).__name__}: {error}")
        else:
            self._heard = True
            before, self._now = self._now, int(found.get(CHROMIUM_RESOURCE, 0))
            self._urgent = int(found.get(URGENT_RESOURCE, 0))
            self._expected = self._expected or self._now > 0
            if before and not self._now:
                self._empty_since = time.monotonic()
        self._looked_at = time.monotonic()


@cache
def browsers_here() -> int:
    """Return how many browsers this process's node runs at once, with those for what somebody waits for."""
    me = cast("Any", ray.get_runtime_context()).get_node_id()
    slots = (CHROMIUM_RESOURCE, URGENT_RESOURCE)
    found = [node["Resources"] for node in _nodes() if node["NodeID"] == me]
    return max([1, *(int(sum(resources.get(slot, 0) for slot in slots)) for resources in found)])


# Ray's own types for these are incomplete
_cluster_resources = cast("Callable[[], dict[str, float]]", ray.cluster_resources)
_nodes = cast("Callable[[], list[dict[str, Any]]]", ray.nodes)
