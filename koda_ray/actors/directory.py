"""Finding a session's one actor, or activating it, from any process of the cluster.

A call that meets a dying or restarting actor is made again: commands carry idempotency keys, so one that was
recorded before the actor died is found, not repeated. Looking an actor up blocks, so that happens in a thread.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any, cast

import ray
import structlog
from pydantic import JsonValue
from ray.exceptions import RayError, RayTaskError

from koda_ray.actors.host import (
    JANITOR_OPTIONS,
    NAMESPACE,
    SESSION_OPTIONS,
    JanitorHost,
    SessionHost,
    session_name,
)
from koda_ray.config import Settings
from koda_ray.errors import Fenced, KodaError, NotFound
from koda_ray.sandbox.base import PreviewEndpoint, SandboxProvider
from koda_ray.state.storage import Storage, render_prefix, session_prefix
from koda_ray.state.store import CommandRecord, Store

__all__ = ["CALL_TIMEOUT_S", "RayDirectory", "public_settings", "start_janitor"]

CALL_TIMEOUT_S = 60.0
"""How long a call may take to find a living actor, in seconds, before it gives up."""
_RETRY_S = 0.1
_log = structlog.get_logger()


def public_settings(settings: Settings) -> dict[str, object]:
    """Settings for another process, without secrets (each process reads those from its own environment).

    Paths are made absolute: Ray's workers run elsewhere.
    """
    dumped = settings.model_dump(mode="python")
    secrets = {name for name, value in dumped.items() if hasattr(value, "get_secret_value")}
    public = {name: value for name, value in dumped.items() if name not in secrets and value is not None}
    for name in ("storage_path", "database_path", "sandbox_path", "template_path", "node_modules_path"):
        public[name] = getattr(settings, name).absolute()
    return public


async def start_janitor(settings: Settings) -> None:
    """Make sure that the cluster has its janitor."""
    public = public_settings(settings)
    handle = await asyncio.to_thread(lambda: JanitorHost.options(**JANITOR_OPTIONS).remote(public))
    await handle.ping.remote()


class RayDirectory:
    """Implements the API's ``SessionDirectory`` with Ray actors."""

    def __init__(self, settings: Settings, *, store: Store, storage: Storage, sandboxes: SandboxProvider) -> None:
        self._public = public_settings(settings)
        self._store = store
        self._storage = storage
        self._sandboxes = sandboxes

    async def submit(
        self, *, session_id: str, user_id: str, name: str, body: Mapping[str, JsonValue], key: str
    ) -> CommandRecord:
        """Have the session record a command, activating it where needed."""
        await self._store.get_session(session_id, user_id=user_id)
        call = {"name": name, "body": dict(body), "key": key, "user_id": user_id}
        return cast("CommandRecord", await self._call(session_id, "submit", call))

    async def wake(self, session_id: str) -> None:
        """Activate a session."""
        await self._call(session_id, "ping", {})

    async def preview(self, *, session_id: str, user_id: str) -> PreviewEndpoint:
        """Return the session's running dev server."""
        await self._store.get_session(session_id, user_id=user_id)
        return cast("PreviewEndpoint", await self._call(session_id, "preview", {"user_id": user_id}))

    async def watch(self, session_id: str, watchers: int) -> None:
        """Tell a session that is active how many people follow it here."""
        handle = await self._find(session_id)
        if handle is not None:
            try:
                await handle.watch.remote(watchers=watchers)
            except RayError:
                _log.debug("watch not delivered", session_id=session_id)

    async def delete(self, *, session_id: str, user_id: str) -> None:
        """Remove a session: its row first, which fences its actor, then actor, sandboxes, files and videos."""
        try:
            record = await self._store.get_session(session_id, user_id=user_id)
        except NotFound:
            await self._store.delete_session(session_id, user_id=user_id)  # NotFound for all but its owner
            return
        jobs = await self._store.list_jobs(session_id=session_id)
        boxes = await self._store.sandboxes(session_id=session_id, live=False)
        handle = await self._find(session_id)
        await self._store.delete_session(session_id, user_id=user_id)
        if handle is not None:
            await asyncio.to_thread(_kill, handle, no_restart=True)
        for box in boxes:
            await self._sandboxes.destroy(box.id)
        for job in jobs:
            await self._storage.delete_prefix(render_prefix(user_id, job.id))
        await self._storage.delete_prefix(session_prefix(user_id, record.project_id, session_id))

    async def _find(self, session_id: str) -> Any | None:
        try:
            return await asyncio.to_thread(_get_actor, session_name(session_id), namespace=NAMESPACE)
        except ValueError:
            return None

    async def _call(self, session_id: str, method: str, given: Mapping[str, object]) -> object:
        deadline = time.monotonic() + CALL_TIMEOUT_S
        while True:
            try:
                handle = await asyncio.to_thread(self._activate, session_id)
                return await getattr(handle, method).remote(**given)
            except RayTaskError as error:
                cause = error.cause
                if not isinstance(cause, KodaError):
                    raise
                if not isinstance(cause, Fenced) or time.monotonic() > deadline:
                    raise cause from None
            except RayError as error:  # dying, restarting, out of reach: it is there again in a moment
                if time.monotonic() > deadline:
                    raise
                _log.info("calling again", session_id=session_id, method=method, error=type(error).__name__)
            await asyncio.sleep(_RETRY_S)

    def _activate(self, session_id: str) -> Any:
        options = {**SESSION_OPTIONS, "name": session_name(session_id)}
        return SessionHost.options(**options).remote(session_id, self._public)


# Ray's own types for these are incomplete
_kill = cast("Callable[..., None]", ray.kill)  # pyright: ignore[reportUnknownMemberType]
_get_actor = cast("Callable[..., Any]", ray.get_actor)  # pyright: ignore[reportUnknownMemberType]
