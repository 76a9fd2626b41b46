"""Reading sessions and renders where no server runs: straight from the database, which is where they are."""

from __future__ import annotations

from collections.abc import Sequence

from koda_ray.config import Settings
from koda_ray.serve.listing import Sought, renders_found, session_shown, sessions_found
from koda_ray.serve.usage import session_usage, user_usage
from koda_ray.state.records import RendersSought
from koda_ray.state.stores import store_from
from koda_ray.wire import RenderList, RenderStatus, SessionPage, SessionUsage, SessionView, UserUsage

__all__ = ["read_renders", "read_session", "read_sessions", "read_usage"]

_USER = "local"


async def read_sessions(*, limit: int, before: str | None) -> SessionPage:
    """Read a page of the local user's sessions."""
    settings = Settings.model_validate({})
    if not _is_there(settings):
        return SessionPage(sessions=())
    store = store_from(settings, processes="one")
    await store.open()
    try:
        return await sessions_found(store, _USER, Sought(), limit=limit, before=before)
    finally:
        await store.close()


async def read_session(session_id: str) -> SessionView:
    """Read one of the local user's sessions. Raises NotFound."""
    store = store_from(Settings.model_validate({}), processes="one")
    await store.open()
    try:
        return await session_shown(store, session_id, _USER)
    finally:
        await store.close()


async def read_usage(session_id: str | None, *, month: str | None) -> SessionUsage | UserUsage:
    """Read what one of the local user's sessions has used, or all of their work. Raises NotFound."""
    settings = Settings.model_validate({})
    store = store_from(settings, processes="one")
    await store.open()
    try:
        if session_id is None:
            return await user_usage(store, _USER, settings, month=month)
        return await session_usage(store, await store.get_session(session_id, user_id=_USER), settings)
    finally:
        await store.close()


async def read_renders(
    *, limit: int, before: str | None, status: Sequence[RenderStatus], text: str | None
) -> RenderList:
    """Read a page of the local user's renders. Raises InvalidInput."""
    settings = Settings.model_validate({})
    if not _is_there(settings):
        return RenderList(renders=())
    store = store_from(settings, processes="one")
    await store.open()
    try:
        sought = RendersSought(statuses=tuple(status))
        return await renders_found(store, _USER, sought, text=text or "", limit=limit, before=before)
    finally:
        await store.close()


def _is_there(settings: Settings) -> bool:
    """Whether there is anything to read, so that reading makes nothing."""
    if settings.json_store_path is not None:
        return settings.json_store_path.exists()
    return settings.database_provider != "sqlite" or settings.database_path.exists()
