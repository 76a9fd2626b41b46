"""A round of clearing as a Ray task on a node of its own: it takes no resource, and nothing of it stays there.

On a full disk Ray's workers end of writing the name of their work to their log, before they begin with it. There a
round has a process whose output may be lost, or nothing would ever clear that disk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

import ray
from ray._private.ray_constants import WORKER_PROCESS_SETUP_HOOK_ENV_VAR
from ray.exceptions import RayError, RayTaskError, WorkerCrashedError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from koda_ray.actors.nodes import ClusterNode
from koda_ray.actors.reaper import Reaped, Reaper
from koda_ray.actors.rounds import Rounds
from koda_ray.actors.seeing import own_node, see_nodes
from koda_ray.config import Settings
from koda_ray.errors import KodaError, StorageError, Unavailable
from koda_ray.logs import lose_output, name_process
from koda_ray.render.fitness import free_bytes, has_room, note_outdated, note_space

__all__ = ["VISIT_S", "look_at_disk", "rounds"]

VISIT_S = 300.0
"""How long a node's round may take, in seconds, before it is given up and its worker ended."""
_LOSES_OUTPUT = {"env_vars": {WORKER_PROCESS_SETUP_HOOK_ENV_VAR: f"{lose_output.__module__}.{lose_output.__name__}"}}
"""Has a process that does not end of writing to its log. Source: Ray's documentation, ``worker_process_setup_hook``."""


def rounds(public: Mapping[str, object]) -> Rounds:
    """Return the rounds of the cluster that this process is in.

    Args:
        public: What `public_settings` gave; each node has the secrets in its own environment.
    """
    given = dict(public)
    full = set[str]()

    async def sent(node_id: str, *, loses_output: bool) -> Reaped:
        options = {"scheduling_strategy": _there(node_id=node_id, soft=False)}
        options |= {"runtime_env": _LOSES_OUTPUT} if loses_output else {}
        return await _over(await asyncio.to_thread(_reap.options(**options).remote, given))

    async def visit(node_id: str) -> Reaped:
        try:
            try:
                return await sent(node_id, loses_output=node_id in full)
            except WorkerCrashedError:  # or nothing starts there, on a full disk
                if node_id in full or await has_room(node_id):
                    raise
                return await sent(node_id, loses_output=True)
        except RayTaskError as error:
            if isinstance(error.cause, KodaError):
                raise error.cause from None
            raise
        except (RayError, RuntimeError, OSError, TimeoutError) as error:  # the node went, or the head is away
            why = type(error).__name__
            raise Unavailable(f"its round is lost ({why}): it is due again with the next clearing") from error

    async def look() -> tuple[ClusterNode, ...]:
        nodes = (await see_nodes()).nodes
        full.clear()
        full.update(node.id for node in nodes if node.unfit == "full")
        return nodes

    return Rounds(here=own_node(), look=look, visit=visit)


def look_at_disk(settings: Settings) -> None:
    """Say whether this node's disk has room, once it is cleared."""
    note_space(free_bytes([settings.sandbox_path]) >= settings.node_room_mb << 20)


async def _over(round_of: object) -> Reaped:
    """Await a round; where nobody waits for it any more it is ended."""
    try:
        async with asyncio.timeout(VISIT_S):
            return cast("Reaped", await cast("Awaitable[Any]", round_of))
    except (TimeoutError, asyncio.CancelledError):
        _cancel(round_of, force=True)
        raise


async def _clear_here(settings: Settings) -> Reaped:
    from koda_ray.actors.parts import open_store, sandbox_provider

    store = await open_store(settings)
    try:
        deployment = await store.deployment()
        sandboxes = await asyncio.to_thread(sandbox_provider, settings, deployment=deployment)
        try:
            reaper = Reaper.of(settings, store=store, deployment=deployment, sandboxes=sandboxes, clouds=False)
            return await reaper.clear()
        finally:
            await sandboxes.close()
    finally:
        await store.close()


def _reap_node(public: Mapping[str, object]) -> Reaped:
    """Clear the node that this runs on."""
    name_process(node=own_node())
    settings = Settings.model_validate(public)
    try:
        reaped = asyncio.run(_clear_here(settings))
    except StorageError as error:
        if error.code == "SCHEMA_NEWER":
            note_outdated()
        raise
    look_at_disk(settings)
    return reaped


# Ray's own types for these are incomplete
_remote = cast("Callable[..., Callable[[object], Any]]", ray.remote)
_cancel = cast("Callable[..., None]", ray.cancel)  # pyright: ignore[reportUnknownMemberType]
_there = cast("Callable[..., object]", NodeAffinitySchedulingStrategy)
_reap = _remote(num_cpus=0, max_retries=0, name="reaper")(_reap_node)
