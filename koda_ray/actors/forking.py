"""Making a session of another one's past, as a Ray task: a process of its own, which ends with it.

A past is all that was ever said in a session, every call, and every state that it was in, one for each commit: those
pass through a few at a time. At a point that was left (a head) the calls are one row and all held, which a process that
answers everybody is not to do. It takes a session's place on its node, so that no more of them are made at once than
there is room for, and one of a user's at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast
from weakref import WeakValueDictionary

import ray
from ray.exceptions import RayError, RayTaskError

from koda_ray.actors.timeline import fork_session
from koda_ray.config import Settings
from koda_ray.errors import KodaError, Unavailable
from koda_ray.render.presence import Presence
from koda_ray.resources import FORK_SHARE, SESSION_RESOURCE
from koda_ray.state.records import SessionQuota

__all__ = ["FORK_S", "Forks"]

FORK_S = 60.0
"""How long a fork may take, in seconds, with waiting for its turn."""


class Forks:
    """Makes sessions of others.

    Args:
        public: What `public_settings` gave; each node has the secrets in its own environment.
        presence: Which nodes can be reached.
    """

    def __init__(self, public: Mapping[str, object], presence: Presence) -> None:
        self._public = dict(public)
        self._presence = presence
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def fork(self, *, session_id: str, user_id: str, point: str | None, key: str) -> str:
        """Make a session of another one's past; see `fork_session`, whose errors this raises.

        Returns:
            Its id.

        Raises:
            Unavailable: It was not made within `FORK_S` seconds, or its process was ended.
        """
        turn = self._turns.setdefault(user_id, asyncio.Lock())
        asked = {"session_id": session_id, "user_id": user_id, "point": point, "key": key}
        try:
            async with asyncio.timeout(FORK_S), turn:
                return await self._made(asked)
        except RayTaskError as error:
            if isinstance(error.cause, KodaError):
                raise error.cause from None
            raise
        except (RayError, TimeoutError) as error:
            why = type(error).__name__
            raise Unavailable(
                f"session {session_id} was not forked within {FORK_S:.0f} s ({why}); try again with the same key",
                context={"session_id": session_id},
            ) from error

    async def _made(self, asked: Mapping[str, object]) -> str:
        elsewhere = await self._presence.elsewhere(SESSION_RESOURCE)
        task = await asyncio.to_thread(lambda: _fork.options(**elsewhere).remote(self._public, asked))
        try:
            return await cast("Awaitable[str]", task)
        except asyncio.CancelledError:
            _cancel(task, force=True)
            raise


def _fork_here(public: Mapping[str, object], asked: Mapping[str, Any]) -> str:
    """Make a session in this process."""
    return asyncio.run(_forked(Settings.model_validate(public), **asked))


async def _forked(settings: Settings, **asked: Any) -> str:
    from koda_ray.actors.parts import open_store

    store = await open_store(settings)
    try:
        quota = SessionQuota(sessions=settings.max_sessions_per_user or None)
        return await fork_session(store, asked.pop("session_id"), quota=quota, **asked)
    finally:
        await store.close()


# Ray's own types for these are incomplete
_remote = cast("Callable[..., Callable[[object], Any]]", ray.remote)
_cancel = cast("Callable[..., None]", ray.cancel)  # pyright: ignore[reportUnknownMemberType]
_asks = {"num_cpus": 0, "resources": {SESSION_RESOURCE: FORK_SHARE}}
_fork = _remote(**_asks, max_retries=0, max_calls=1, name="fork")(_fork_here)
