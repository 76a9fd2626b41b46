"""What a server sees of the cluster that it is in: its nodes, and its janitor."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import ray
from ray.exceptions import RayError

from koda_ray.actors.host import NAMESPACE
from koda_ray.actors.janitor_host import JANITOR
from koda_ray.actors.janitor_round import JanitorRound
from koda_ray.actors.nodes import NodesSeen
from koda_ray.actors.seeing import ANSWER_S, see_nodes
from koda_ray.errors import Unavailable

__all__ = ["RayEyes"]


class RayEyes:
    """Implements the API's ``ClusterEyes`` for the cluster that this process is in."""

    async def nodes(self) -> NodesSeen:
        """Say which nodes there are. Raises Unavailable."""
        return await see_nodes()

    async def janitor(self) -> JanitorRound:
        """Say what the janitor did last.

        Raises:
            Unavailable: There is none, or it does not answer.
        """
        try:
            async with asyncio.timeout(ANSWER_S):
                handle = await asyncio.to_thread(_get_actor, JANITOR, namespace=NAMESPACE)
                return cast("JanitorRound", await handle.last.remote())
        except (RayError, TimeoutError, ValueError) as error:
            raise Unavailable(
                f"the janitor does not answer within {ANSWER_S:.0f} s ({type(error).__name__}): what owes work is not "
                "woken until there is one again; it is started with the server"
            ) from error


# Ray's own types for these are incomplete
_get_actor = cast("Callable[..., Any]", ray.get_actor)  # pyright: ignore[reportUnknownMemberType]
