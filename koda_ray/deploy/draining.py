"""Telling a cluster that this machine goes: Ray puts nothing more on its nodes, and what works there can leave."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, cast

import psutil
import ray
from ray._private import services
from ray.core.generated import autoscaler_pb2, gcs_pb2
from ray.exceptions import RayError

from koda_ray.errors import InvalidInput, Missing, Unavailable

__all__ = ["drain_this_machine"]

_ANSWER_S = 5.0
_AGAIN_S = 0.5


def drain_this_machine(why: str, *, left_s: float, address: str | None = None) -> list[str]:
    """Have all of Ray's nodes on this machine drained.

    Args:
        why: What is told to whoever asks Ray.
        left_s: In how many seconds the machine is gone.
        address: The head's; that of the node that runs here when None.

    Returns:
        The nodes, by Ray's ids.

    Raises:
        InvalidInput: The address is none.
        Missing: No node runs here.
        Unavailable: The head did not answer in all that time, or refuses it.
    """
    try:
        head = _head_of(address)
    except ValueError as error:
        raise InvalidInput(f"{address!r} is no address of a head: write HOST:PORT") from error
    if head is None:
        raise Missing("no node of Ray's runs here: start it first, with ray start, or name the head with --address")
    gone_at = time.time() + left_s
    while True:
        try:
            return _drain(head, why, gone_at)
        except Unavailable:
            if time.time() >= gone_at:
                raise
        time.sleep(_AGAIN_S)


def _drain(head: str, why: str, gone_at: float) -> list[str]:
    try:
        client = _gcs_client(address=head)
        nodes = _nodes_here(client.get_all_node_info(timeout=_ANSWER_S))
        for node in nodes:
            taken, refusal = client.drain_node(node, _PREEMPTION, why, round(gone_at * 1000), timeout=_ANSWER_S)
            if not taken:
                raise Unavailable(f"the head at {head} does not drain node {node}: {refusal}")
    except RayError as error:
        raise Unavailable(f"the head at {head} does not answer: {error}") from error
    if not nodes:
        raise Missing(f"the cluster at {head} has no node on this machine: start it first, with ray start")
    return nodes


def _nodes_here(known: Any) -> list[str]:
    own = {address.address for addresses in psutil.net_if_addrs().values() for address in addresses}
    return [node.hex() for node, info in known.items() if info.state == _ALIVE and info.node_manager_address in own]


# Ray's own types for these are incomplete
_gcs_client = cast("Callable[..., Any]", cast("Any", ray)._raylet.GcsClient)
_head_of = cast("Callable[[str | None], str | None]", cast("Any", services).canonicalize_bootstrap_address)
_ALIVE = cast("Any", gcs_pb2).GcsNodeInfo.ALIVE
_PREEMPTION = cast("Any", autoscaler_pb2).DRAIN_NODE_REASON_PREEMPTION
