"""Which nodes can do no work, and why, as all of a cluster know it: a disk is full, or a program is too old.

On a full disk one piece of work after the other fails: a browser's profile, a frame, a sandbox. On a node with an older
version than the database's, nothing can be opened once a newer one has changed that. Whoever meets either says so under
the node's id, in what Ray's head keeps by key. Whoever puts something somewhere reads it there (`presence`), and what
runs on such a node leaves it, where others of the cluster could take it. Nothing of ours is there then to notice that
there is room again: the janitor looks, with each of its rounds, and forgets what was said of nodes that are gone. An
older version stays one.

A process that starts on a full disk does not live to say so: the first that Ray has it do is to write the name of its
work to its log, and it ends of that. So whoever has lost something asks the nodes where processes were lost just now,
which Ray's head knows, for their room (`losing_nodes`, `has_room`).
"""

from __future__ import annotations

import asyncio
import errno
import shutil
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, cast, get_args

import ray
from ray._private.state import state
from ray.core.generated import common_pb2, gcs_pb2
from ray.exceptions import RayError, WorkerCrashedError
from ray.experimental import internal_kv
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from koda_ray.errors import KodaError, RenderError
from koda_ray.logs import get_logger
from koda_ray.render.protocol import NODE_FULL
from koda_ray.temporary import temporary_folder

__all__ = [
    "Unfit",
    "declared_full",
    "forget_gone",
    "free_bytes",
    "has_room",
    "is_full",
    "losing_nodes",
    "note_outdated",
    "note_space",
    "unfit_nodes",
]

Unfit = Literal["full", "outdated"]
"""Why a node can do no work."""
_FULL, _OUTDATED = (why.encode() for why in get_args(Unfit))
_KEY = b"unfit:"
_NAMESPACE = b"koda"
_ERRORS = (errno.ENOSPC, errno.EDQUOT)
_RECENT_S = 30.0
"""How long ago, in seconds, a process was lost just now; machines' clocks differ by less."""
_ROOM_S = 20.0
_LEAST_BYTES = 16 << 20
"""With less, nothing of ours can do anything."""
_log = get_logger(__name__)


def free_bytes(places: Iterable[Path] = ()) -> int:
    """Return how much can still be written where temporary files lie and at other places, where that is least."""
    return min(shutil.disk_usage(_existing(place)).free for place in (temporary_folder(), *places))


def _existing(place: Path) -> Path:
    place = place.absolute()
    while not place.exists():
        place = place.parent
    return place


def is_full(error: BaseException) -> bool:
    """Whether an error says that a disk is full."""
    return error.code == "DISK_FULL" if isinstance(error, KodaError) else getattr(error, "errno", None) in _ERRORS


def declared_full(error: BaseException | None, *, free: int) -> RenderError:
    """Say of this node that it has no room, and return the error with which work leaves it.

    Args:
        error: What failed, if something did.
        free: How much can still be written, in bytes.
    """
    note_space(False)
    why = "its disk has no room" if error is None else str(error)
    return RenderError(f"{why} ({free >> 20} MB are free)", code=NODE_FULL, retryable=True)


def note_space(there_is: bool) -> None:
    """Say whether this node has room. A head that is away is told by whoever meets the disk next."""
    if not ray.is_initialized():  # it would be started by asking
        return
    key, node = _own()
    try:
        if not there_is:
            _note_full(node)
        elif _get(key, namespace=_NAMESPACE) == _FULL:
            _del(key, namespace=_NAMESPACE)
            _log.info("there is room on the disk again", node=node)
    except (RayError, RuntimeError, OSError) as error:
        _log.info("the cluster is not told of the disk", error=type(error).__name__)


def note_outdated() -> None:
    """Say that this node has an older version than the database, for good."""
    key, node = _own()
    try:
        _put(key, _OUTDATED, True, namespace=_NAMESPACE)
        _log.warning("a newer version has changed the database: others of the cluster get the work", node=node)
    except (RayError, RuntimeError, OSError) as error:
        _log.info("the cluster is not told of the version", error=type(error).__name__)


def losing_nodes() -> frozenset[str]:
    """Return Ray's ids of nodes on which processes have just ended that nobody had end.

    Blocks, and raises what Ray does where its head is away. The head tells of all processes that there were: it is
    asked where something was lost, and not otherwise.
    """
    data = cast("Any", gcs_pb2).WorkerTableData
    rows = [data.FromString(told) for told in cast("Any", state)._connect_and_get_accessor().get_worker_table()]
    return frozenset(
        row.worker_address.node_id.hex()
        for row in rows
        if row.exit_type == _LOST and not row.is_alive and abs(time.time() - row.end_time_ms / 1000) < _RECENT_S
    )


async def has_room(node: str) -> bool:
    """Ask a node, by Ray's id, where a process was lost, whether it has room, and tell the cluster where it has not.

    It has none where the process that is to say so is lost as well. Where nobody answers, it may have. What is known of
    it is not asked again.
    """
    there = _there(node_id=node, soft=False)
    try:
        if (await asyncio.to_thread(unfit_nodes)).get(node) == "full":
            return False
        asked = await asyncio.to_thread(_room.options(scheduling_strategy=there).remote)
        async with asyncio.timeout(_ROOM_S):
            free = await cast("Awaitable[int]", asked)
    except WorkerCrashedError:
        free = 0
    except (RayError, RuntimeError, OSError, TimeoutError) as error:
        _log.info("a node does not say whether it has room", node=node, error=type(error).__name__)
        return True
    if free < _LEAST_BYTES:
        await asyncio.to_thread(_note_full, node)
    return free >= _LEAST_BYTES


def unfit_nodes() -> Mapping[str, Unfit]:
    """Return why which nodes can do no work, by Ray's ids; blocks, and raises what Ray does where its head is away.

    It takes the head two questions, however many nodes are unfit, and one where none is.
    """
    keys = _list(_KEY, namespace=_NAMESPACE)
    said = cast("dict[bytes, bytes]", _client().internal_kv_multi_get(keys, _NAMESPACE)) if keys else {}
    found = {_node(key): value.decode() for key, value in said.items()}
    return {node: cast("Unfit", why) for node, why in found.items() if why in get_args(Unfit)}


def forget_gone() -> None:
    """Drop what was said of nodes that are gone, which nobody else does. Blocks."""
    if not ray.is_initialized():
        return
    try:
        if not (keys := _list(_KEY, namespace=_NAMESPACE)):
            return
        alive = {node["NodeID"] for node in _nodes() if node["Alive"]}  # later: who says something is there already
        for key in keys:
            if (node := _node(key)) not in alive:
                _del(key, namespace=_NAMESPACE)
                _log.info("an unfit node is gone", node=node)
    except (RayError, RuntimeError, OSError) as error:
        _log.info("the cluster does not say which unfit nodes are gone", error=type(error).__name__)


def _note_full(node: str) -> None:
    if not _put(_KEY + node.encode(), _FULL, False, namespace=_NAMESPACE):
        _log.warning("the disk is full: others of the cluster get the work", node=node)


def _node(key: bytes) -> str:
    return key.removeprefix(_KEY).decode()


def _own() -> tuple[bytes, str]:
    node = str(cast("Any", ray).get_runtime_context().get_node_id())
    return _KEY + node.encode(), node


# Ray's own types for these are incomplete
_put = cast("Callable[..., bool]", cast("Any", internal_kv)._internal_kv_put)
_get = cast("Callable[..., bytes | None]", cast("Any", internal_kv)._internal_kv_get)
_del = cast("Callable[..., int]", cast("Any", internal_kv)._internal_kv_del)
_list = cast("Callable[..., list[bytes]]", cast("Any", internal_kv)._internal_kv_list)
_client = cast("Callable[[], Any]", cast("Any", internal_kv).internal_kv_get_gcs_client)
_nodes = cast("Callable[[], list[dict[str, Any]]]", ray.nodes)
_remote = cast("Callable[..., Callable[[object], Any]]", ray.remote)
_there = cast("Callable[..., object]", NodeAffinitySchedulingStrategy)
_room = _remote(num_cpus=0, max_retries=0, name="room")(free_bytes)
_LOST = cast("Any", common_pb2).WorkerExitType.Value("SYSTEM_ERROR")
