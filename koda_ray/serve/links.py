"""Addresses of pages out of sandboxes: signed, good for an hour, and on another origin than this API."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Query, Request

from koda_ray.errors import Missing
from koda_ray.serve.context import Deps, User
from koda_ray.serve.deps import ApiDeps
from koda_ray.serve.signing import Signer
from koda_ray.wire import PreviewLink

__all__ = ["Links", "MayEdit", "PreviewLinks", "preview_origin"]

MayEdit = Annotated[
    bool, Query(description="An address that may also write: what Theatre's editor (`?studio`) changes is saved then")
]


class PreviewLinks:
    """Makes addresses for one person.

    Args:
        origin: Where the pages are shown.
        signer: Signs them.
        user: Who asks.
    """

    def __init__(self, origin: str, *, signer: Signer, user: str) -> None:
        self._origin = origin
        self._signer = signer
        self._user = user

    def to(self, session_id: str, *, port: int | None = None, edit: bool) -> PreviewLink:
        """Return where a session's page is seen; or, with a port, what answers there in a sandbox of one's own.

        Whoever has the address may look; with ``edit``, write, too.
        """
        token, expires_at = self._signer.sign(session_id=session_id, user_id=self._user, port=port, edit=edit)
        return PreviewLink(url=f"{self._origin}/p/{token}/", expires_at=expires_at, edit=edit)

    def to_stored(self, session_id: str, bundle: str) -> PreviewLink:
        """Return where a built page that a session has shown is seen; whoever has the address may look."""
        token, expires_at = self._signer.sign(session_id=session_id, user_id=self._user, bundle=bundle)
        return PreviewLink(url=f"{self._origin}/p/{token}/", expires_at=expires_at, edit=False)


async def _links(request: Request, user: User, deps: Deps) -> PreviewLinks:
    """Refuse whoever wants an address where previews are turned off, before anything is started.

    Raises:
        Missing: MISSING, they are.
    """
    origin = preview_origin(request, deps)
    if origin is None:
        raise Missing("the live preview is turned off on this server; set KODA_PREVIEW_PORT to turn it on")
    return PreviewLinks(origin, signer=deps.signer, user=user)


Links = Annotated[PreviewLinks, Depends(_links)]


def preview_origin(request: Request, deps: ApiDeps) -> str | None:
    """Return where pages out of sandboxes are shown; None for nowhere."""
    if deps.settings.preview_origin is not None:
        return deps.settings.preview_origin
    return None if deps.preview_port is None else f"{request.url.scheme}://{_host(request)}:{deps.preview_port}"


def _host(request: Request) -> str:
    host = request.url.hostname or "127.0.0.1"
    return f"[{host}]" if ":" in host else host
