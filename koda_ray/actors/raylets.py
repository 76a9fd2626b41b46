"""Asking nodes themselves, by their raylets, which answer while the cluster's head is away.

What a raylet has given away it alone knows for certain: the head tells of that a moment later, and for a while after it
has come back not at all. It has no list of leases, but says how much of a place is taken, and each worker says whether
it is an actor and what it has done. One that has done nothing yet idles, whether it is leased or not; one that has done
tasks is none that Ray would make an actor of, so that it was leased for none.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

from ray._private import grpc_utils
from ray.core.generated import node_manager_pb2, node_manager_pb2_grpc

from koda_ray.errors import Unavailable
from koda_ray.resources import SESSION_RESOURCE

__all__ = ["NodeLeases", "end_idle", "leases_of", "raylet_address", "take_out_of_line"]

_ANSWER_S = 3.0
_WORKER = 0  # Ray's number for what is neither a driver nor for its own ends
_NO_ACTOR = b"\xff" * 16


@dataclass(frozen=True, slots=True)
class NodeLeases:
    """What a raylet has given away.

    Attributes:
        used: How many of its places of sessions.
        actors: Its workers that are actors, by Ray's ids of them.
        idle: Those that have done nothing yet.
    """

    used: float
    actors: frozenset[str]
    idle: frozenset[str]


def raylet_address(host: str, port: int) -> str:
    """Return what a raylet is asked at."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def leases_of(address: str) -> NodeLeases:
    """Ask a raylet what it has given away.

    Args:
        address: Its own, with the port.

    Raises:
        Unavailable: It does not answer.
    """
    with _asking(address) as raylet:
        said = raylet.GetNodeStats(_proto.GetNodeStatsRequest(), timeout=_ANSWER_S)
        offers = raylet.GetResourceLoad(_proto.GetResourceLoadRequest(), timeout=_ANSWER_S).resources
    total, free = (dict(of).get(SESSION_RESOURCE, 0.0) for of in (offers.resources_total, offers.resources_available))
    workers = [worker for worker in said.core_workers_stats if worker.worker_type == _WORKER]
    actors = {worker.worker_id.hex() for worker in workers if worker.actor_id not in (b"", _NO_ACTOR)}
    idle = {worker.worker_id.hex() for worker in workers if not _has_worked(worker)}
    return NodeLeases(total - free, frozenset(actors), frozenset(idle - actors))


def _has_worked(worker: Any) -> bool:
    return worker.num_executed_tasks > 0 or worker.num_running_tasks > 0 or worker.task_queue_length > 0


def take_out_of_line(address: str, shares: Sequence[float]) -> None:
    """Have a raylet refuse all that waits there for a place, or for a process to have it in.

    Args:
        address: Its own, with the port.
        shares: Of how much of a place.

    Raises:
        Unavailable: It does not answer.
    """
    asked = _proto.CancelLeasesWithResourceShapesRequest()
    for share in shares:
        asked.resource_shapes.add().resource_shape[SESSION_RESOURCE] = share
    with _asking(address) as raylet:
        raylet.CancelLeasesWithResourceShapes(asked, timeout=_ANSWER_S)


def end_idle(address: str, worker: str) -> None:
    """End a worker; one that has become an actor meanwhile refuses, and goes on.

    Args:
        address: Its raylet's, with the port.
        worker: Ray's id of it.

    Raises:
        Unavailable: The raylet does not answer.
    """
    asked = _proto.KillLocalActorRequest(
        worker_id=bytes.fromhex(worker), intended_actor_id=_NO_ACTOR, force_kill=True
    )  # fmt: skip
    with _asking(address) as raylet:
        try:
            raylet.KillLocalActor(asked, timeout=_ANSWER_S)
        except _grpc.RpcError as error:
            # what one that ends has no time to say and one that refuses says: what is taken shows which it was
            if _code(error) not in ("ABORTED", "DEADLINE_EXCEEDED"):
                raise


@contextmanager
def _asking(address: str) -> Generator[Any]:
    channel = _channel(address)
    try:
        yield _stub(channel)
    except _grpc.RpcError as error:
        raise Unavailable(f"the raylet at {address} does not answer ({_code(error)})") from error
    finally:
        channel.close()


def _code(error: Any) -> str:
    return str(error.code().name)


# Ray's own types for these are incomplete, and gRPC, which comes with it, has none
_grpc = cast("Any", grpc_utils).grpc
_proto = cast("Any", node_manager_pb2)
_stub = cast("Callable[[Any], Any]", cast("Any", node_manager_pb2_grpc).NodeManagerServiceStub)
_channel = cast("Callable[[str], Any]", grpc_utils.init_grpc_channel)
