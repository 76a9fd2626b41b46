"""What the API asks of sessions and page renders, on whichever machine of the cluster these are.

A command needs no actor to be accepted: it is recorded, then its session's actor is told (`session_calls`). Where that
does not answer in time, because Ray's head is away, no node has room or the machine was lost, the command waits: the
session takes it with its next heartbeat, or the janitor wakes it for that.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
import zlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeVar, cast

import ray
from pydantic import JsonValue
from ray.exceptions import RayError, RayTaskError

from koda_ray.actors.answering import Lost, answer_or_lost
from koda_ray.actors.coordinator import coordinators_for, renders_at_once
from koda_ray.actors.forking import Forks
from koda_ray.actors.host import NAMESPACE, SESSION_OPTIONS, CoordinatorHost, coordinator_name
from koda_ray.actors.intake import new_command, record_command
from koda_ray.actors.passages import Passages
from koda_ray.actors.removal import Removal
from koda_ray.actors.seeing import own_node
from koda_ray.actors.session_calls import SessionCalls
from koda_ray.config import Settings
from koda_ray.errors import Conflict, Fenced, KodaError, NotFound, StorageError, Unavailable
from koda_ray.events import NewEvent
from koda_ray.logs import get_logger
from koda_ray.resources import CHROMIUM_RESOURCE, SESSION_RESOURCE
from koda_ray.sandbox.base import PreviewEndpoint, SandboxProvider
from koda_ray.sandbox.node_door import DoorAddress, door_key
from koda_ray.state.records import CommandRecord, JobRecord, JobStatus, SessionRecord
from koda_ray.state.storage import Storage
from koda_ray.state.store import Store
from koda_ray.tools.workbench import Picture
from koda_ray.types import now

__all__ = ["CALL_TIMEOUT_S", "PREVIEW_TIMEOUT_S", "TAKEN_S", "RayDirectory", "public_settings"]

CALL_TIMEOUT_S = 60.0
"""How long a call may take, in seconds, with finding or starting the actor."""
TAKEN_S = 15.0
"""How long a recorded command's session has to take it, in seconds, before its client is told that it waits."""
PREVIEW_TIMEOUT_S = 120.0
"""How long a call for a preview may take, in seconds: a sandbox is filled and a dev server started."""
PICTURE_TIMEOUT_S = 180.0
"""How long one for a picture of the page may: a sandbox is filled, and the page built and shown in a browser."""
END_TIMEOUT_S = 20.0
_STOP_TIMEOUT_S = 2.5
_WATCH_TIMEOUT_S = 5.0
_HEAD_S = 5.0
"""How long a request waits for Ray's head, in seconds, where it can do without."""
_RETRY_S = 0.1
_WHY_CHARS = 500
_CANCELLED = NewEvent(type="state_change", data={"status": "cancelled"})
T = TypeVar("T")
_log = get_logger()


def public_settings(settings: Settings) -> dict[str, object]:
    """Settings for another process, without secrets (each process reads those from its own environment)."""
    dumped = settings.model_dump(mode="python")
    secrets = {name for name, value in dumped.items() if hasattr(value, "get_secret_value")}
    return {name: value for name, value in dumped.items() if name not in secrets and value is not None}


class RayDirectory:
    """Implements the API's ``SessionDirectory`` with Ray actors.

    Args:
        settings: For the actors.
        store: The database.
        storage: Where sessions keep files.
        sandboxes: Makes what ends their sandboxes, once one is deleted: that asks the database.

    Attributes:
        presence: Which nodes can be reached: one look is enough for all that this process puts on one.
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
        self._calls = SessionCalls(store, self._public)
        self.presence = self._calls.presence
        self._forks = Forks(self._public)
        self._most_awake, self._most_video_s = settings.user_sessions, settings.user_render_s
        self._signing_key = settings.signing_key
        self._passages: Passages | None = None
        self._store = store
        self._storage = storage
        self._sandboxes = sandboxes
        self._removal: Removal | None = None
        self._source = secrets.token_hex(8)

    async def submit(
        self, *, session_id: str, user_id: str, name: str, body: Mapping[str, JsonValue], key: str
    ) -> CommandRecord:
        """Record a command, then have its session take it, activating it where needed.

        Once this returns, the command is durable. Where its session did not take it in time, its result says ``waits``.
        """
        asked = new_command(session_id=session_id, user_id=user_id, name=name, body=body, key=key)
        recorded, waits = await record_command(
            self._store, asked, most_awake=self._most_awake, most_video_s=self._most_video_s
        )
        if not waits:
            return recorded
        try:
            taken = await self._calls.call(session_id, "take", {"key": key}, limit_s=TAKEN_S)
        except (Unavailable, StorageError) as error:
            why = error.message
        except (KodaError, RayTaskError) as error:  # it was refused, or its session could not be started
            if not any(each.key == key for each in await self._store.inbox(session_id)):
                raise
            why = f"{type(error).__name__}: {error}"
        else:
            return cast("CommandRecord", taken)
        _log.warning("a command waits", session_id=session_id, command=name, why=why[:_WHY_CHARS])
        return replace(recorded, result={**recorded.result, "waits": True})

    async def wake(self, session_id: str) -> None:
        """Activate a session."""
        await self._calls.call(session_id, "ping", {}, limit_s=CALL_TIMEOUT_S)

    async def preview(self, *, session_id: str, user_id: str) -> PreviewEndpoint:
        """Return the session's running dev server."""
        await self._store.get_session(session_id, user_id=user_id)
        given = {"user_id": user_id, "node": own_node()}
        return await self._here(await self._calls.call(session_id, "preview", given, limit_s=PREVIEW_TIMEOUT_S))

    async def picture(self, *, session_id: str, user_id: str, at_s: float, size: tuple[int, int]) -> Picture:
        """Have a frame of the session's page pictured and kept."""
        await self._store.get_session(session_id, user_id=user_id)
        given = {"user_id": user_id, "at_s": at_s, "size": size}
        return cast("Picture", await self._calls.call(session_id, "picture", given, limit_s=PICTURE_TIMEOUT_S))

    async def shown(self, *, session_id: str, user_id: str) -> PreviewEndpoint | None:
        """Return the dev server of a session that is active and has its project open."""
        try:
            async with asyncio.timeout(_WATCH_TIMEOUT_S):
                if (handle := await self._active(session_id)) is None:
                    return None
                found = await handle.shown.remote(user_id=user_id, node=own_node())
                return None if found is None else await self._here(found)
        except (RayError, TimeoutError) as error:  # it is leaving, or busy: whoever asks asks again
            self._calls.forget(session_id)
            _log.debug("no dev server to show", session_id=session_id, error=type(error).__name__)
            return None

    async def _here(self, found: object) -> PreviewEndpoint:
        """Return where a dev server is reached from this node."""
        if not isinstance(found, DoorAddress):
            return cast("PreviewEndpoint", found)
        if self._passages is None:
            secret = self._signing_key
            self._passages = Passages(door_key(None if secret is None else secret.get_secret_value().encode()))
        return await self._passages.to(found)

    async def close(self) -> None:
        """Close the ways to sandboxes on other nodes; may be called twice."""
        if self._passages is not None:
            await self._passages.close()

    async def watch(self, session_id: str, watchers: int) -> None:
        """Tell a session that is active how many people follow it here."""
        try:
            async with asyncio.timeout(_WATCH_TIMEOUT_S):
                if (handle := await self._active(session_id)) is not None:
                    await handle.watch.remote(source=self._source, watchers=watchers)
        except (RayError, TimeoutError) as error:  # it is said again soon
            self._calls.forget(session_id)
            _log.debug("watch not delivered", session_id=session_id, error=type(error).__name__)

    async def _active(self, session_id: str) -> Any | None:
        """Return the actor of a session that some process has, as far as its row tells."""
        with contextlib.suppress(NotFound):
            row = await self._store.get_session(session_id)
            if row.host is not None:
                return await self._calls.find(session_id, row.activation)
        return None

    async def fork(self, *, session_id: str, user_id: str, point: str | None, key: str) -> str:
        """Make a session of another one's past, in a process of its own; see `Forks`."""
        return await self._forks.fork(session_id=session_id, user_id=user_id, point=point, key=key)

    async def delete(self, *, session_id: str, user_id: str) -> None:
        """Remove a session with its actor, sandboxes, files, videos and rows; see `Removal` for what stays and why.

        From the first moment on nobody sees it. When this is cut off, the janitor goes on, and where Ray's head or the
        storage is away it is left to the janitor, too: whoever deletes it has no use for waiting.

        Raises:
            NotFound: There is no such session of this user, or no more.
            DatabaseAway: It may be deleted all the same.
        """
        closed = await self._store.close_session(session_id, user_id=user_id)
        try:
            await self._finish(closed, head_s=_HEAD_S)
        except (Unavailable, StorageError) as error:
            _log.warning("a deletion is left to the janitor", session_id=session_id, why=error.message[:_WHY_CHARS])

    async def passivate(self, session_id: str) -> None:
        """Have a discarded session's actor save and end, however long that takes; one that was had back goes on.

        Whoever is cancelled meanwhile leaves the actor to it.

        Raises:
            NotFound: There is no such session any more.
            Unavailable: Ray's head does not say where it is.
        """
        row = await self._store.get_session(session_id)
        if row.delete_at is None or (handle := await self._found(row, CALL_TIMEOUT_S)) is None:
            return
        if (await self._store.get_session(session_id)).delete_at is None:  # had back while it was sought
            return
        with contextlib.suppress(RayError, Lost):  # it is gone: its lease runs out
            await answer_or_lost(handle.close.remote(), lambda: self.presence.is_lost(handle))

    async def finish(self, closed: SessionRecord) -> None:
        """End what a closed session still does, and remove it. May be called again.

        Raises:
            KodaError: Something could not be removed; calling again goes on.
        """
        await self._finish(closed, head_s=CALL_TIMEOUT_S)

    async def _finish(self, closed: SessionRecord, *, head_s: float) -> None:
        await self._end(closed, head_s)
        if self._removal is None:
            self._removal = Removal(store=self._store, storage=self._storage, sandboxes=await self._sandboxes())
        await self._removal.finish(closed)

    async def _end(self, row: SessionRecord, head_s: float) -> None:
        """End a closed session's actor for good; its renders and its sandbox end with it, where it still answers."""
        handle = await self._found(row, head_s)
        if handle is not None:
            with contextlib.suppress(RayError, TimeoutError):
                async with asyncio.timeout(END_TIMEOUT_S):
                    await handle.close.remote()
            await _of_head(self._calls.end(handle), head_s)

    async def _found(self, row: SessionRecord, head_s: float) -> Any | None:
        """Look a session's actor up anew: it may have slept, and woken, since it was called from here."""
        self._calls.forget(row.id)
        return await _of_head(self._calls.find(row.id, row.activation), head_s)

    async def wake_render(self, job_id: str) -> bool:
        """Have a page render worked on, if there is room; else the janitor finds it queued later.

        How many are under way the database knows, which counts and takes for one at a time; whoever works on them is
        found by the job's id, so nothing of the cluster is listed.

        Returns:
            Whether this began it.

        Raises:
            NotFound: There is no such job.
            Unavailable: It did not begin in time.
        """
        most = await self._renders_at_once()
        until = now() + timedelta(seconds=CALL_TIMEOUT_S)
        try:
            row = await self._store.admit_job(job_id, most=most, lease_until=until)
            if row is None:
                return False
            try:
                await self._begin_render(job_id, _coordinator(job_id, most))
            except BaseException:
                await self._take_back(row)
                raise
        except Conflict:  # it was over before it began
            return False
        return True

    async def _renders_at_once(self) -> int:
        resources = await _of_head(self._calls.in_thread(_cluster_resources), _HEAD_S)
        browsers = int(resources.get(CHROMIUM_RESOURCE, 0))
        return renders_at_once(browsers, cast("int | None", self._public.get("browsers_max")))

    async def _begin_render(self, job_id: str, coordinator: str) -> None:
        """Have a process of renders take a job."""
        deadline = time.monotonic() + CALL_TIMEOUT_S
        why = "TimeoutError"
        while (left_s := deadline - time.monotonic()) > 0:
            try:
                async with asyncio.timeout(left_s):
                    where = await self.presence.elsewhere(SESSION_RESOURCE)
                    made = CoordinatorHost.options(**SESSION_OPTIONS, **where, name=coordinator)
                    handle = await self._calls.in_thread(made.remote, self._public)
                    return await self._of_present(handle, handle.begin.remote(job_id))
            except RayTaskError as error:
                cause = error.cause
                if not isinstance(cause, KodaError):
                    raise
                if not isinstance(cause, Fenced):  # it is ending
                    raise cause from None
                why = cause.message
            except Lost:
                why = "its process fell silent, and another is started"
            except (RayError, TimeoutError) as error:
                why = type(error).__name__
            await asyncio.sleep(_RETRY_S)
        raise Unavailable(f"render {job_id} did not begin within {CALL_TIMEOUT_S:.0f} s ({why})")

    async def _of_present(self, handle: Any, answer: Awaitable[T]) -> T:
        """Await what an actor answers; where its node is gone, end it, so that its name is free for the next."""
        try:
            return await answer_or_lost(answer, lambda: self.presence.is_lost(handle))
        except Lost:
            await self._calls.end(handle)
            raise

    async def _take_back(self, row: JobRecord) -> None:
        """Take back that a render may begin; nothing happens where it has."""
        waits: JobStatus = "running" if row.epoch else "queued"
        with contextlib.suppress(KodaError):
            await self._store.update_job(replace(row, status=waits, lease_until=None, updated_at=now()))

    async def cancel_render(self, job_id: str, *, user_id: str) -> JobRecord:
        """Cancel a page render; one that is over stays as it is.

        Whoever works on it is told, and ends its processes; where that fails, they notice as they renew its lease.

        Raises:
            NotFound: There is no such job of this user.
        """
        before = await self._store.get_job(job_id, user_id=user_id)
        row = await self._store.cancel_job(job_id, user_id=user_id)
        if before.status != row.status and row.status == "cancelled":
            await self._store.append_job_events(job_id, row.epoch, [_CANCELLED])
            await self._stop([job_id])
        return row

    async def cancel_renders(self, *, user_id: str, id_prefix: str) -> None:
        """Cancel a user's page renders whose ids begin so, all of them at once; those that are over stay as they are.

        Whoever works on them is told as `cancel_render` does, in one go: with the head away all of them together cost
        no more than one.
        """
        under_way = await self._store.cancel_renders(user_id, id_prefix=id_prefix, events=[_CANCELLED])
        await self._stop(under_way)

    async def _stop(self, job_ids: Sequence[str]) -> None:
        """Tell whoever works on renders that these are cancelled; each is told, whatever becomes of the others."""
        if not job_ids:
            return
        told: list[BaseException | None] = []
        with contextlib.suppress(RayError, TimeoutError, Unavailable):
            async with asyncio.timeout(_STOP_TIMEOUT_S):
                most = await self._renders_at_once()
                where = {job_id: _coordinator(job_id, most) for job_id in job_ids}
                handles = {name: await _of_head(self._find(name), _HEAD_S) for name in set(where.values())}
                asked = [(handles[name], job_id) for job_id, name in where.items()]
                answers = (_answered(handle.stop.remote(job_id)) for handle, job_id in asked if handle is not None)
                told = await asyncio.gather(*answers, return_exceptions=True)
        for error in told:
            if error is not None and not isinstance(error, RayError):
                raise error

    async def _find(self, name: str) -> Any | None:
        try:
            return await self._calls.in_thread(_get_actor, name, namespace=NAMESPACE)
        except ValueError:
            return None


async def _answered(answer: Awaitable[object]) -> None:
    await answer


async def _of_head(answer: Awaitable[T], limit_s: float) -> T:
    """Await what Ray's head is asked.

    Raises:
        Unavailable: It does not answer.
    """
    try:
        async with asyncio.timeout(limit_s):
            return await answer
    except (RayError, RuntimeError, OSError) as error:
        why = f"within {limit_s:.0f} s" if isinstance(error, TimeoutError) else f"({type(error).__name__})"
        raise Unavailable(f"the cluster's head does not answer {why}; try again") from error


def _coordinator(job_id: str, most: int) -> str:
    """Return who works on a render: the same process for as long as there is as much room, or nearly."""
    return coordinator_name(zlib.crc32(job_id.encode()) % coordinators_for(most))


# Ray's own types for these are incomplete
_cluster_resources = cast("Callable[[], dict[str, float]]", ray.cluster_resources)
_get_actor = cast("Callable[..., Any]", ray.get_actor)  # pyright: ignore[reportUnknownMemberType]
