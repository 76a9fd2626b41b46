"""Asking a cluster's head which nodes there are, with an end to the wait: a head that is gone must hold up nobody."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Literal, cast

import ray
from ray.autoscaler.v2.sdk import get_cluster_status

from koda_ray.actors.nodes import ClusterNode, NodesSeen
from koda_ray.errors import Unavailable
from koda_ray.render.fitness import Unfit, unfit_nodes

__all__ = ["ANSWER_S", "own_node", "see_nodes"]

ANSWER_S = 5.0
"""How long the head may take to say what there is, in seconds."""
_SPARE_S = 2.0
_UNNAMED = "node_"  # what Ray calls a group that nobody named, with the node's id


async def see_nodes(*, limit_s: float = ANSWER_S) -> NodesSeen:
    """Ask the cluster's head.

    Args:
        limit_s: How long it may take, in seconds.

    Raises:
        Unavailable: It does not answer, or this process is in no cluster.
    """
    try:
        async with asyncio.timeout(limit_s + _SPARE_S):  # a thread that hangs is left behind
            return _read(*await asyncio.to_thread(_ask, limit_s))
    except Exception as error:  # Ray has no class of its own for all the ways in which a call fails
        raise Unavailable(
            f"the cluster's head does not answer within {limit_s:.0f} s ({type(error).__name__}): see whether its "
            "gcs_server runs, with: ray status"
        ) from error


def own_node() -> str:
    """Return Ray's id of the node that this process is on."""
    return str(_context().get_node_id())


def _ask(limit_s: float) -> tuple[Any, Mapping[str, Unfit]]:
    if not ray.is_initialized():  # Ray would start a cluster of its own
        raise RuntimeError("this process is in no cluster")
    return _status(_context().gcs_address, timeout=max(1, round(limit_s))), unfit_nodes()


def _read(status: Any, unfit: Mapping[str, Unfit]) -> NodesSeen:
    return NodesSeen(
        nodes=tuple(_node(found, unfit) for found in (*status.active_nodes, *status.idle_nodes)),
        lost=len(status.failed_nodes),
        coming=len(status.pending_nodes) + sum(int(launch.count) for launch in status.pending_launches),
        waiting=tuple(
            (dict(one.bundle), int(one.count))
            for demand in status.resource_demands.ray_task_actor_demand
            for one in demand.bundles_by_count
        ),
    )


def _node(found: Any, unfit: Mapping[str, Unfit]) -> ClusterNode:
    status: Literal["working", "idle", "draining"] = "working"
    if found.node_status == "IDLE":
        status = "idle"
    elif found.node_status == "DRAINING":
        status = "draining"
    group = str(found.ray_node_type_name)
    return ClusterNode(
        id=str(found.node_id),
        address=str(found.ip_address),
        group="" if group.startswith(_UNNAMED) else group,
        status=status,
        idle_s=found.resource_usage.idle_time_ms / 1000,
        total=dict(found.total_resources()),
        used=dict(found.used_resources()),
        unfit=unfit.get(str(found.node_id)),
    )


# Ray's own types for these are incomplete
_context = cast("Callable[[], Any]", cast("Any", ray).get_runtime_context)
_status = cast("Callable[..., Any]", get_cluster_status)
