"""Reading sessions and renders where no server runs: straight from the database, which is where they are."""

from __future__ import annotations

from collections.abc import Sequence

from koda_ray.config import Settings
from koda_ray.serve.views import page_of, render_place, renders_page, view_of
from koda_ray.state.sql import SqlStore
from koda_ray.wire import RenderPage, RenderStatus, SessionPage, SessionView

__all__ = ["read_renders", "read_session", "read_sessions"]

_USER = "local"


async def read_sessions(*, limit: int, before: str | None) -> SessionPage:
    """Read a page of the local user's sessions."""
    settings = Settings.model_validate({})
    if settings.database_provider == "sqlite" and not settings.database_path.exists():
        return SessionPage(sessions=())
    store = SqlStore.from_settings(settings)
    await store.open()
    try:
        return page_of(await store.list_sessions(_USER, limit=limit + 1, before=before), limit)
    finally:
        await store.close()


async def read_session(session_id: str) -> SessionView:
    """Read one of the local user's sessions. Raises NotFound."""
    store = SqlStore.from_settings(Settings.model_validate({}))
    await store.open()
    try:
        return view_of(await store.get_session(session_id, user_id=_USER))
    finally:
        await store.close()


async def read_renders(*, limit: int, before: str | None, status: Sequence[RenderStatus]) -> RenderPage:
    """Read a page of the local user's renders. Raises InvalidInput."""
    place = None if before is None else render_place(before)
    settings = Settings.model_validate({})
    if settings.database_provider == "sqlite" and not settings.database_path.exists():
        return RenderPage(renders=())
    store = SqlStore.from_settings(settings)
    await store.open()
    try:
        rows = await store.list_renders(_USER, statuses=status, limit=limit + 1, before=place)
        return renders_page(rows, limit)
    finally:
        await store.close()
