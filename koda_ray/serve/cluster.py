"""How a deployment is, from what its database counts and what Ray says; that Ray says nothing is an answer too."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from koda_ray.actors.janitor_round import JanitorRound
from koda_ray.actors.nodes import ClusterNode, NodesSeen
from koda_ray.errors import KodaError, Unavailable
from koda_ray.resources import CHROMIUM_RESOURCE, SESSION_RESOURCE, URGENT_RESOURCE
from koda_ray.serve.deps import ClusterEyes
from koda_ray.serve.usage import usage_of
from koda_ray.state.store import Store
from koda_ray.types import now
from koda_ray.wire import (
    Capacity,
    ClusterReport,
    DatabaseReport,
    JanitorReport,
    NodeReport,
    OwedCount,
    RenderCount,
    SessionCount,
)

__all__ = ["cluster_report"]

_T = TypeVar("_T")
_SHOWN = ("CPU", "GPU", "memory", "object_store_memory", CHROMIUM_RESOURCE, URGENT_RESOURCE, SESSION_RESOURCE)


async def cluster_report(store: Store, eyes: ClusterEyes | None) -> ClusterReport:
    """Say how everything is.

    Args:
        store: The database.
        eyes: Who asks Ray; None where there is none.
    """
    at = now()
    counted, figures, (seen, problem), (told, silence) = await asyncio.gather(
        store.census(at), store.metrics(), _nodes(eyes), _janitor(eyes)
    )
    nodes = () if seen is None else seen.nodes
    return ClusterReport(
        at=at,
        nodes=None if seen is None else tuple(map(_node, sorted(nodes, key=lambda node: (node.group, node.address)))),
        lost_nodes=None if seen is None else seen.lost,
        coming_nodes=None if seen is None else seen.coming,
        problem=problem,
        browsers=None if seen is None else _capacity(seen.nodes, CHROMIUM_RESOURCE),
        urgent=None if seen is None else _capacity(seen.nodes, URGENT_RESOURCE),
        room=None if seen is None else _capacity(seen.nodes, SESSION_RESOURCE),
        sessions=SessionCount(
            active=counted.awake, asleep=counted.asleep, owing=counted.owing, closing=counted.closing
        ),
        renders=RenderCount(
            queued=counted.queued, running=counted.rendering, waiting=None if seen is None else _waiting(seen)
        ),
        owed=OwedCount(count=counted.unheld, since=counted.unheld_since),
        sandboxes=counted.sandboxes,
        database=DatabaseReport.model_validate(figures, from_attributes=True),
        spent_in_month=usage_of(counted.spent_in_month),
        spent=usage_of(counted.spent),
        janitor=None if told is None else JanitorReport.model_validate(told, from_attributes=True),
        janitor_problem=silence,
    )


async def _nodes(eyes: ClusterEyes | None) -> tuple[NodesSeen | None, str | None]:
    return await _asked(None if eyes is None else eyes.nodes())


async def _janitor(eyes: ClusterEyes | None) -> tuple[JanitorRound | None, str | None]:
    return await _asked(None if eyes is None else eyes.janitor())


async def _asked(question: Awaitable[_T] | None) -> tuple[_T | None, str | None]:
    """Return the answer, or why there is none."""
    try:
        if question is None:
            raise Unavailable("this server is in no Ray cluster")
        return await question, None
    except KodaError as error:
        return None, error.message


def _node(node: ClusterNode) -> NodeReport:
    return NodeReport(
        id=node.id,
        address=node.address,
        group=node.group,
        status=node.status,
        idle_s=node.idle_s,
        unfit=node.unfit,
        resources={
            name: Capacity(used=node.used.get(name, 0.0), total=node.total[name])
            for name in _SHOWN
            if node.total.get(name)
        },
    )


def _capacity(nodes: tuple[ClusterNode, ...], resource: str) -> Capacity:
    """Sum a resource over nodes that take work."""
    stay = [node for node in nodes if node.status != "draining" and node.total.get(resource)]
    there = [node for node in stay if node.unfit is None] or stay  # where none is fit, all work on as well as they can
    return Capacity(
        used=sum(node.used.get(resource, 0.0) for node in nodes),
        total=sum(node.total.get(resource, 0.0) for node in there),
    )


def _waiting(seen: NodesSeen) -> int:
    return sum(count for one, count in seen.waiting if CHROMIUM_RESOURCE in one or URGENT_RESOURCE in one)
