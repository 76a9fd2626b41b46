"""The page in the browser: a few files that were built at set-up, under a policy that lets no other script run.

They are looked for once, when a server starts, and given from a table: no path of a request ever reaches the disk.
Names with a hash in them never change; the page itself is asked for anew each time. What a build before had is given
for as long as it is kept (``built.py``). A part that is not there is a 404 that nobody keeps, and never the page, so
that who asked for it knows. Without the build the server says so at these addresses, and everything else works.

Source: CSP level 3; RFC 9111, section 5.2.2 (``immutable`` is RFC 8246).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from pathlib import Path

from fastapi import APIRouter, FastAPI, Request, Response
from starlette.responses import HTMLResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from koda_ray.serve.built import HASHED, BuiltPage, PageFile
from koda_ray.serve.context import deps_of
from koda_ray.serve.deps import ApiDeps
from koda_ray.serve.links import preview_origin
from koda_ray.serve.media import bucket_origin
from koda_ray.serve.problem import problem_of, problem_response

__all__ = ["add_page", "is_nowhere", "is_page"]

_PAGES = (
    *("/", "/renders", "/renders/{job_id}", "/assets", "/usage", "/c", "/c/{canvas}"),
    *("/sandboxes", "/sandboxes/{sandbox_id}"),
    *("/s/{session_id}", "/s/{session_id}/compare", "/t/{group}"),
)
_ALONE = ("/", "/renders", "/assets", "/usage", "/sandboxes", "/c", "/koda.svg", "/scheme.js")
_ABOVE = ("/c/", "/renders/", "/sandboxes/", "/s/", "/t/", "/w/", "/page/")
_WATCHED = ("/w/{token}", "/w/{token}/embed")
_OTHERS = {"v1", "api", "docs"}
"""One of these is a part of every address of the API, of what plugins ask, and of the description."""
_HOST = re.compile(r"[A-Za-z0-9.-]+(:\d{1,5})?", re.ASCII)
_EMBED = re.compile(r"/w/[A-Za-z0-9_-]+/embed")
_POLICY = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "style-src-attr": "'unsafe-inline'",  # a width in a style attribute runs nothing
    "img-src": "'self' data: blob:",
    "media-src": "'self' blob:",
    "font-src": "'self'",
    "connect-src": "'self'",
    "frame-src": "'none'",
    "base-uri": "'none'",
    "form-action": "'self'",
    "frame-ancestors": "'none'",
}
"""The page's own scripts alone, and no other page around it."""
_HEADERS = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}
_PRIVATE = {"Referrer-Policy": "no-referrer", "X-Robots-Tag": "noindex"}
"""Of a page whose address is a key: it is told to nobody."""
_NOTHING: Mapping[str, str] = {}
_PLAIN = {"X-Content-Type-Options": "nosniff"}
_NO_PART = "no build of the page that is kept here has this part: load the page anew"
_NOT_BUILT = """<!doctype html><html lang="en"><meta charset="utf-8"><title>koda</title>
<h1>The page is not built here</h1>
<p>The server works. To have the page, run <code>./koda setup</code> on its machine and start it again.</p>
<p>Until then: the <a href="/docs">API</a>, and <code>koda --help</code>.</p></html>
"""


def is_page(path: str) -> bool:
    """Whether an address is of the page, which anybody may read: what it shows is asked for with a key."""
    return path in _ALONE or path.startswith(_ABOVE)


def is_nowhere(path: str) -> bool:
    """Whether an address can be none of the API's: where the page is not either, anybody may read that nothing is."""
    return _OTHERS.isdisjoint(path.split("/"))


def add_page(app: FastAPI, folder: Path) -> None:
    """Have an application give the page away, behind all that it has routes for by now.

    Args:
        app: The application.
        folder: What ``npm run build`` in ``web/`` made; it may be missing.
    """
    built = BuiltPage.read(folder)
    app.include_router(_router(built))
    app.router.default = _nowhere(built, app.router.default)


def _nowhere(built: BuiltPage, otherwise: ASGIApp) -> ASGIApp:
    """Have browsers see the page where there is nothing, which says so; whoever else asks gets what the API says."""

    async def answered(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] in ("GET", "HEAD") and is_nowhere(scope["path"]):
            request = Request(scope, receive)
            if built.index is not None and "text/html" in request.headers.get("accept", ""):
                headers = {"Cache-Control": "no-store", **_told(await _reaches(request, deps_of(request)))}
                answer = HTMLResponse(built.index.body, 404, headers)
                await answer(scope, receive, send)
                return
        await otherwise(scope, receive, send)

    return answered


def _router(built: BuiltPage) -> APIRouter:
    """Serve what was built of the page, and what of builds before it is kept."""
    router = APIRouter(include_in_schema=False)

    async def shown(request: Request, policy: Mapping[str, str], more: Mapping[str, str] = _NOTHING) -> Response:
        headers = {"Cache-Control": "no-cache", **_told(policy), **more}
        if built.index is None:
            return HTMLResponse(_NOT_BUILT, status_code=503, headers=headers)
        return _answer(request, built.index, headers)

    async def page(request: Request) -> Response:
        return await shown(request, await _reaches(request, deps_of(request)))

    async def watched(request: Request) -> Response:
        path = request.url.path
        # as the page reads it, which decodes nothing: whatever else comes to this answer is the whole page there
        is_embed = _EMBED.fullmatch(path) is not None and request.scope.get("raw_path") == path.encode()
        return await shown(request, {"frame-ancestors": "*"} if is_embed else _NOTHING, _PRIVATE)

    async def hashed(request: Request, name: str) -> Response:
        file = await _part(built, f"{HASHED}{name}")
        if file is None:
            gone = problem_of(404, "NOT_FOUND", detail=_NO_PART, instance=request.url.path)
            return problem_response(gone, {"Cache-Control": "no-store"})
        return _answer(request, file, {"Cache-Control": "public, max-age=31536000, immutable", **_PLAIN})

    for path, answer in (*((path, page) for path in _PAGES), *((path, watched) for path in _WATCHED)):
        router.add_api_route(path, answer, methods=["GET", "HEAD"])
    router.add_api_route(f"/{HASHED}{{name:path}}", hashed, methods=["GET", "HEAD"])

    def added(name: str, file: PageFile) -> None:
        async def one(request: Request) -> Response:
            return _answer(request, file, {"Cache-Control": "no-cache", **_PLAIN})

        router.add_api_route(f"/{name}", one, methods=["GET", "HEAD"])

    for name, file in built.files.items():
        if not name.startswith(HASHED):
            added(name, file)
    return router


async def _part(built: BuiltPage, name: str) -> PageFile | None:
    """Return a hashed file, of this build or of one before; None where there is none, or none any more."""
    if (file := built.files.get(name)) is not None:
        return file
    if (path := built.before.get(name)) is None:
        return None
    try:
        return await asyncio.to_thread(PageFile.read, path)
    except FileNotFoundError:  # it was kept for its time
        return None


def _told(policy: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that every page has."""
    rules = "; ".join(f"{name} {value}" for name, value in {**_POLICY, **policy}.items())
    return {"Content-Security-Policy": rules, **_HEADERS}


def _answer(request: Request, file: PageFile, headers: dict[str, str]) -> Response:
    headers = {**headers, "ETag": file.etag, "Vary": "Accept-Encoding"}
    if request.headers.get("if-none-match") == file.etag:
        return Response(status_code=304, headers=headers)
    if file.zipped is not None and "gzip" in request.headers.get("accept-encoding", ""):
        return Response(file.zipped, media_type=file.media_type, headers={**headers, "Content-Encoding": "gzip"})
    return Response(file.body, media_type=file.media_type, headers=headers)


def _sockets(request: Request) -> tuple[str, ...]:
    """Return the sources of this server's sockets; older browsers do not take them for 'self'."""
    host = request.headers.get("host", "")
    return (f"ws://{host}", f"wss://{host}") if _HOST.fullmatch(host) else ()


async def _reaches(request: Request, deps: ApiDeps) -> dict[str, str]:
    """Return what one's own pages may reach beside what is of the server: its sockets, previews, videos in a bucket."""
    shown, bucket = preview_origin(request, deps), await bucket_origin(deps)
    return {
        "connect-src": " ".join(["'self'", *_sockets(request)]),
        "media-src": " ".join(["'self' blob:", *([bucket] if bucket else ())]),
        "frame-src": shown or "'none'",
    }
