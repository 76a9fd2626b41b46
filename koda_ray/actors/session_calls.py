"""Calling a session's one actor, activating it where it is not there, from any process of the cluster.

An actor's name has its session's id and the number of its activation, which stands in the session's row. Ray gives a
name's handle for as long as it takes that actor for alive: 20 to 55 seconds after its machine fell silent. So whoever
waits looks for itself: where the lease in the row has run out and the process does not even say that it holds it, or
is on a machine that takes no connection (`koda_ray.render.presence`), the session is given the next number (one of all
that try succeeds), and is sought under the next name, on machines that are there. The fence in the
database keeps the old process from writing, should it come back, and one that Ray starts again under the old name is
refused the session.

A call that meets a dying or restarting actor is made again: commands wait in the database under their keys, so one that
was taken before the actor died is found, not repeated. Handles are kept, so that a session that is awake is reached
while Ray's head is away. Looking one up blocks for as long as that lasts, so it happens in threads of our own. No call
waits without end: what is not answered in time is an error that says so, and may be tried again.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any, TypeVar, cast

import ray
from ray.exceptions import RayError, RayTaskError

from koda_ray.actors.answering import Lost, answer_or_lost
from koda_ray.actors.host import NAMESPACE, SESSION_OPTIONS, SessionHost, session_name
from koda_ray.config import Settings
from koda_ray.errors import Fenced, KodaError, Unavailable
from koda_ray.logs import get_logger
from koda_ray.render.presence import Presence
from koda_ray.resources import SESSION_RESOURCE
from koda_ray.state.records import SessionRecord
from koda_ray.state.store import Store
from koda_ray.types import now

__all__ = ["HANDLES", "SessionCalls"]

HANDLES = 4_096
"""How many handles a process keeps; those used longest ago are looked up again."""
_LOOKUPS = 16
_PRESENT_S = 5.0  # a process that has to wait for a processor is not to lose its session for it
_RETRY_S = 0.1
T = TypeVar("T")
_log = get_logger()


class SessionCalls:
    """Finds sessions' actors, and calls them.

    Args:
        store: Where sessions' rows are.
        public: The settings that their actors are made with, without secrets.

    Attributes:
        presence: Which nodes can be reached.
    """

    def __init__(self, store: Store, public: Mapping[str, object]) -> None:
        self._store = store
        self._public = dict(public)
        self._overdue = timedelta(seconds=Settings.model_validate(self._public).lease_s / 2)
        self._handles: OrderedDict[str, tuple[int, Any]] = OrderedDict()
        self._threads = ThreadPoolExecutor(_LOOKUPS, thread_name_prefix="koda-actors")
        self.presence = Presence()

    async def call(self, session_id: str, method: str, given: Mapping[str, object], *, limit_s: float) -> object:
        """Have a session's actor do something, activating it where needed.

        Raises:
            NotFound: There is no such session.
            Unavailable: It did not answer within ``limit_s`` seconds.
            KodaError: What the session raised.
        """
        why = "it does not answer"
        try:
            async with asyncio.timeout(limit_s):
                while True:
                    try:
                        return await self._ask(await self._store.get_session(session_id), method, given)
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
                    except Lost:
                        why = "its process fell silent, and another is started"
                    self.forget(session_id)
                    await asyncio.sleep(_RETRY_S)
        except TimeoutError as error:
            raise Unavailable(
                f"session {session_id} did not take {method!r} within {limit_s:.0f} s: {why}; try again",
                context={"session_id": session_id, "method": method},
            ) from error

    async def find(self, session_id: str, activation: int) -> Any | None:
        """Return the handle of a session's actor; None where there is none under that number."""
        if (known := self._known(session_id, activation)) is not None:
            return known
        try:
            return self._keep(session_id, activation, await self.in_thread(_get_actor, session_id, activation))
        except ValueError:
            return None

    async def end(self, handle: Any) -> None:
        """End an actor for good, whether it answers or not."""
        await self.in_thread(_kill, handle, no_restart=True)

    def forget(self, session_id: str) -> None:
        """Have a session's actor looked up when it is called next: it has ended, or may have."""
        self._handles.pop(session_id, None)

    async def in_thread(self, look: Callable[..., T], *given: object, **named: object) -> T:
        """Ask Ray's head something in a thread of ours: it may hang for as long as the head is away."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, lambda: look(*given, **named))

    async def _ask(self, row: SessionRecord, method: str, given: Mapping[str, object]) -> object:
        handle = self._known(row.id, row.activation)
        if handle is None:
            options = {
                **SESSION_OPTIONS,
                **await self.presence.elsewhere(SESSION_RESOURCE),
                "name": session_name(row.id, row.activation),
            }
            made = SessionHost.options(**options)
            found = await self.in_thread(made.remote, row.id, row.activation, self._public)
            handle = self._keep(row.id, row.activation, found)
        return await answer_or_lost(
            getattr(handle, method).remote(**given), lambda: self._is_lost(row.id, row.activation, handle)
        )

    async def _is_lost(self, session_id: str, activation: int, handle: Any) -> bool:
        """Whether a session is not to be reached by this handle any more; has it sought under the next name then."""
        row = await self._store.get_session(session_id)
        if row.activation != activation:
            return True
        if row.host is None or row.lease_until is None:
            # one that never had the session is on its way, or waits for room; one that let it go leaves no host
            if is_gone := await self.presence.is_lost(handle):
                await self.end(handle)
            return is_gone
        left = row.lease_until - now()
        if left >= timedelta(0):
            if left < self._overdue:  # it should have been renewed by now: so that it is known once it is over
                self.presence.glance()
            return False
        if not await self.presence.is_lost(handle) and await _is_present(handle):
            return False
        if await self._store.supersede(session_id, activation, at=now()):
            _log.warning("given up", session_id=session_id, host=row.host, epoch=row.epoch, activation=activation)
            # as well as possible: it holds memory and a place, and Ray would start it again in the end
            self._threads.submit(_kill, handle, no_restart=True)
        return True

    def _known(self, session_id: str, activation: int) -> Any | None:
        known = self._handles.get(session_id)
        if known is None or known[0] != activation:
            return None
        self._handles.move_to_end(session_id)
        return known[1]

    def _keep(self, session_id: str, activation: int, handle: Any) -> Any:
        self._handles[session_id] = (activation, handle)
        while len(self._handles) > HANDLES:
            self._handles.popitem(last=False)
        return handle


async def _is_present(handle: Any) -> bool:
    """Whether an actor says that it holds its session, or Ray that it is gone, which the call hears as well."""
    try:
        async with asyncio.timeout(_PRESENT_S):
            return bool(await handle.here.remote())
    except TimeoutError:
        return False
    except RayError:
        return True


def _get_actor(session_id: str, activation: int) -> Any:
    return _named(session_name(session_id, activation), namespace=NAMESPACE)


# Ray's own types for these are incomplete
_kill = cast("Callable[..., None]", ray.kill)  # pyright: ignore[reportUnknownMemberType]
_named = cast("Callable[..., Any]", ray.get_actor)  # pyright: ignore[reportUnknownMemberType]
