"""Finding a session's one actor, or activating it, from any process of the cluster.

A call that meets a dying or restarting actor is made again: commands carry idempotency keys, so one that was
recorded before the actor died is found, not repeated. Looking an actor up blocks, so that happens in a thread. No call
waits without end: what is not answered in time is an error that says so, and may be tried again.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

import ray
from pydantic import JsonValue
from ray.exceptions import RayError, RayTaskError

from koda_ray.actors.host import (
    NAMESPACE,
    RENDER_PREFIX,
    SESSION_OPTIONS,
    RenderHost,
    SessionHost,
    render_name,
    session_name,
)
from koda_ray.actors.removal import Removal
from koda_ray.config import Settings
from koda_ray.errors import Conflict, Fenced, KodaError, Unavailable
from koda_ray.events import NewEvent
from koda_ray.logs import get_logger
from koda_ray.resources import CHROMIUM_RESOURCE
from koda_ray.sandbox.base import PreviewEndpoint, SandboxProvider
from koda_ray.state.records import CommandRecord, JobRecord, SessionRecord
from koda_ray.state.storage import Storage
from koda_ray.state.store import Store

__all__ = ["CALL_TIMEOUT_S", "MAX_RENDERS", "PREVIEW_TIMEOUT_S", "RayDirectory", "public_settings"]

CALL_TIMEOUT_S = 60.0
"""How long a call may take, in seconds, with finding or starting the actor."""
PREVIEW_TIMEOUT_S = 120.0
"""The same for a preview: a sandbox is filled and a dev server started."""
MAX_RENDERS = 16
"""How many page renders are under way at once at most, in one cluster."""
END_TIMEOUT_S = 20.0
_STOP_TIMEOUT_S = 2.5
_WATCH_TIMEOUT_S = 5.0
_RETRY_S = 0.1
_log = get_logger()


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


class RayDirectory:
    """Implements the API's ``SessionDirectory`` with Ray actors.

    Args:
        settings: For the actors.
        store: The database.
        storage: Where sessions keep files.
        sandboxes: Makes what ends their sandboxes, once one is deleted: that asks the database.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        store: Store,
        storage: Storage,
        sandboxes: Callable[[], Awaitable[SandboxProvider]],
    ) -> None:
        self._public = public_settings(settings)
        self._store = store
        self._storage = storage
        self._sandboxes = sandboxes
        self._removal: Removal | None = None
        self._source = secrets.token_hex(8)
        self._room = asyncio.Lock()

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
        given = {"user_id": user_id}
        return cast("PreviewEndpoint", await self._call(session_id, "preview", given, limit_s=PREVIEW_TIMEOUT_S))

    async def shown(self, *, session_id: str, user_id: str) -> PreviewEndpoint | None:
        """Return the dev server of a session that is active and has its project open."""
        handle = await self._find(session_name(session_id))
        if handle is None:
            return None
        try:
            async with asyncio.timeout(_WATCH_TIMEOUT_S):
                return cast("PreviewEndpoint | None", await handle.shown.remote(user_id=user_id))
        except (RayError, TimeoutError) as error:  # it is leaving, or busy: whoever asks asks again
            _log.debug("no dev server to show", session_id=session_id, error=type(error).__name__)
            return None

    async def watch(self, session_id: str, watchers: int) -> None:
        """Tell a session that is active how many people follow it here."""
        handle = await self._find(session_name(session_id))
        if handle is not None:
            try:
                async with asyncio.timeout(_WATCH_TIMEOUT_S):
                    await handle.watch.remote(source=self._source, watchers=watchers)
            except (RayError, TimeoutError) as error:  # it is said again soon
                _log.debug("watch not delivered", session_id=session_id, error=type(error).__name__)

    async def delete(self, *, session_id: str, user_id: str) -> None:
        """Remove a session with its actor, sandboxes, files, videos and rows; see `Removal` for what stays and why.

        From the first moment on nobody sees it; when this is cut off, the janitor goes on.

        Raises:
            NotFound: There is no such session of this user, or no more.
        """
        await self.finish(await self._store.close_session(session_id, user_id=user_id))

    async def finish(self, closed: SessionRecord) -> None:
        """End what a closed session still does, and remove it. May be called again."""
        handle = await self._find(session_name(closed.id))
        if handle is not None:
            # its renders and its sandbox end with it, where it still answers
            with contextlib.suppress(RayError, TimeoutError):
                async with asyncio.timeout(END_TIMEOUT_S):
                    await handle.close.remote()
            await asyncio.to_thread(_kill, handle, no_restart=True)
        if self._removal is None:
            self._removal = Removal(store=self._store, storage=self._storage, sandboxes=await self._sandboxes())
        await self._removal.finish(closed)

    async def wake_render(self, job_id: str) -> bool:
        """Have a page render worked on, if there is room; else the janitor finds it queued later.

        There is room for one render more than the cluster has browsers: each has a process of its own, and they share
        the browsers; the one more keeps those busy while another is joined.

        Returns:
            Whether it is under way.

        Raises:
            NotFound: There is no such job.
            Unavailable: Its process did not start in time.
        """
        async with self._room:  # looked at and taken by one at a time
            handle = await asyncio.to_thread(self._begin_render, job_id)
        if handle is None:
            return False
        try:
            async with asyncio.timeout(CALL_TIMEOUT_S):
                await handle.ping.remote()
            return True
        except RayTaskError as error:
            cause = error.cause
            if isinstance(cause, Conflict):  # it was over before it began
                return False
            if isinstance(cause, KodaError):
                raise cause from None
            raise
        except (RayError, TimeoutError) as error:
            raise Unavailable(
                f"render {job_id} did not start within {CALL_TIMEOUT_S:.0f} s ({type(error).__name__})"
            ) from error

    def _begin_render(self, job_id: str) -> Any | None:
        running = _renders()
        if render_name(job_id) not in running and len(running) >= _room():
            return None
        options = {**SESSION_OPTIONS, "name": render_name(job_id)}
        return RenderHost.options(**options).remote(job_id, self._public)

    async def cancel_render(self, job_id: str, *, user_id: str) -> JobRecord:
        """Cancel a page render, and end its processes; one that is over stays as it is.

        Raises:
            NotFound: There is no such job of this user.
        """
        before = await self._store.get_job(job_id, user_id=user_id)
        row = await self._store.cancel_job(job_id, user_id=user_id)
        if before.status != row.status and row.status == "cancelled":
            event = NewEvent(type="state_change", data={"status": row.status})
            await self._store.append_job_events(job_id, row.epoch, [event])
        handle = await self._find(render_name(job_id)) if row.status == "cancelled" else None
        if handle is not None:
            with contextlib.suppress(RayError, TimeoutError):
                async with asyncio.timeout(_STOP_TIMEOUT_S):
                    await handle.stop.remote()
                    return row
            await asyncio.to_thread(_kill, handle, no_restart=True)
        return row

    async def _find(self, name: str) -> Any | None:
        try:
            return await asyncio.to_thread(_get_actor, name, namespace=NAMESPACE)
        except ValueError:
            return None

    async def _call(
        self, session_id: str, method: str, given: Mapping[str, object], *, limit_s: float = CALL_TIMEOUT_S
    ) -> object:
        deadline = time.monotonic() + limit_s
        why = "it does not answer"
        while (left_s := deadline - time.monotonic()) > 0:
            try:
                async with asyncio.timeout(left_s):
                    handle = await asyncio.to_thread(self._activate, session_id)
                    return await getattr(handle, method).remote(**given)
            except RayTaskError as error:
                cause = error.cause
                if not isinstance(cause, KodaError):
                    raise
                if not isinstance(cause, Fenced):
                    raise cause from None
                why = cause.message
            except RayError as error:  # dying, restarting, out of reach: it is there again in a moment
                _log.info("calling again", session_id=session_id, method=method, error=type(error).__name__)
                why = f"its process ends again and again ({type(error).__name__})"
            except TimeoutError:
                break
            await asyncio.sleep(_RETRY_S)
        raise Unavailable(
            f"session {session_id} did not take {method!r} within {limit_s:.0f} s: {why}; try again",
            context={"session_id": session_id, "method": method},
        )

    def _activate(self, session_id: str) -> Any:
        options = {**SESSION_OPTIONS, "name": session_name(session_id)}
        return SessionHost.options(**options).remote(session_id, self._public)


def _room() -> int:
    browsers = int(_cluster_resources().get(CHROMIUM_RESOURCE, 0))
    return max(1, min(MAX_RENDERS, browsers + 1))


def _renders() -> set[str]:
    return {
        str(found["name"])
        for found in _list_named_actors(all_namespaces=True)
        if found["namespace"] == NAMESPACE and str(found["name"]).startswith(RENDER_PREFIX)
    }


# Ray's own types for these are incomplete
_cluster_resources = cast("Callable[[], dict[str, float]]", ray.cluster_resources)
_list_named_actors = cast("Callable[..., list[dict[str, str]]]", cast("Any", ray).util.list_named_actors)
_kill = cast("Callable[..., None]", ray.kill)  # pyright: ignore[reportUnknownMemberType]
_get_actor = cast("Callable[..., Any]", ray.get_actor)  # pyright: ignore[reportUnknownMemberType]
