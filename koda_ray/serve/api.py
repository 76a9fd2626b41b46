"""The HTTP application: routes, errors, limits and documentation around the parts that it is given.

No Ray here. The same application runs under uvicorn in tests and inside Ray Serve in production.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import NamedTuple

from fastapi import FastAPI
from fastapi_offline import FastAPIOffline
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.types import Scope

from koda_ray import __version__
from koda_ray.events import Envelope
from koda_ray.sandbox.providers import Providers
from koda_ray.serve import problem
from koda_ray.serve.arriving import BodyReservation
from koda_ray.serve.background import Background
from koda_ray.serve.callers import Callers
from koda_ray.serve.comparing import Comparing
from koda_ray.serve.crossing import let_in
from koda_ray.serve.decoding import DecodingTurns
from koda_ray.serve.deps import ApiDeps
from koda_ray.serve.footage import Footage
from koda_ray.serve.gate import Gate
from koda_ray.serve.hangups import HangUps
from koda_ray.serve.limits import BodyLimit
from koda_ray.serve.openapi import describe, is_public
from koda_ray.serve.pace import STALLED_S
from koda_ray.serve.page_requests import MAX_PAGE_JSON_BYTES, is_json
from koda_ray.serve.parts import Parts
from koda_ray.serve.quotas import Streams
from koda_ray.serve.rates import CHANGE_LESS, Rates
from koda_ray.serve.routes import (
    all_events,
    assets,
    batches,
    by_address,
    canvases,
    capabilities,
    cluster,
    commands,
    comparing,
    events,
    files,
    finals,
    frames,
    health,
    history,
    images,
    jobs,
    login,
    media,
    plugins,
    preview,
    processes,
    projects,
    renders,
    sandbox_files,
    sandbox_project,
    sandboxes,
    sessions,
    shared,
    shares,
    takes,
    usage,
    versions,
)
from koda_ray.serve.stalls import QUICK_S, BodyDeadline
from koda_ray.serve.streams import Watchers
from koda_ray.serve.traced import Traced
from koda_ray.serve.unpacking import Unpacking
from koda_ray.serve.unread import ReadingDeadline
from koda_ray.serve.web import add_page
from koda_ray.wire import CreateBatch, CreateRender, FileChanges, ProcessOutput

__all__ = ["MAX_JSON_BYTES", "create_app"]


@asynccontextmanager
async def _nothing() -> AsyncGenerator[None]:
    yield


MAX_JSON_BYTES = 1024 * 1024
"""Limit for every body but an upload's: a prompt of 20,000 characters, each escaped, is a quarter of this."""
_PAGES = ("/v1/renders", "/v1/renders/batches")
_ROUTES = (
    sessions,
    projects,
    takes,
    commands,
    history,
    events,
    all_events,
    preview,
    files,
    media,
    finals,
    by_address,
    versions,
    shares,
    shared,
    comparing,
    assets,
    canvases,
    jobs,
    batches,
    renders,
    frames,
    usage,
    images,
    sandboxes,
    sandbox_files,
    sandbox_project,
    processes,
    cluster,
    login,
    capabilities,
    plugins,
    health,
)
"""In the order in which the API's description has them."""


def create_app(
    deps: ApiDeps,
    *,
    running: Callable[[], AbstractAsyncContextManager[None]] = _nothing,
    stalled_s: float = STALLED_S,
    quick_s: float = QUICK_S,
) -> FastAPI:
    """Build the application.

    Args:
        deps: Its parts. Set ``deps.draining`` before shutdown so that event streams end.
        running: Entered while the application runs, to open and close the store; else the caller does that.
        stalled_s: After how long a body of which nothing comes is answered 408, and an answer of which nothing is
            read is given up, in seconds.
        quick_s: After how long a body that comes takes a place among its user's streams, in seconds.
    """
    background = Background()
    watchers = Watchers(deps.directory)
    providers = Providers(deps.settings, deps.store)
    streams = Streams(deps.settings.user_streams)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        async with running():
            try:
                yield
            finally:
                deps.draining.set()
                await watchers.close()
                await background.close()
                await providers.close()

    callers = Callers(deps.auth)
    bodies = _Bodies(upload_bytes=deps.settings.max_body_mb << 20, disk_bytes=deps.settings.unpacked_disk_mb << 20)
    app = FastAPIOffline(
        title="koda_ray",
        version=__version__,
        summary="A sentence becomes a finished animation.",
        description=(
            "Make a session from a prompt, follow its events, answer its question, accept its plan and its preview, "
            "download the video. Or render any web page of your own: `POST /v1/renders`. "
            "Commands are recorded before they are answered (202) and worked on afterwards: "
            "nothing is lost when you hang up. Errors are `application/problem+json` with a stable `code`."
        ),
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
        docs_url="/docs",
        redoc_url=None,
        static_url="/docs/assets",  # the page's scripts come from here, not from a network that may be closed
        openapi_url="/v1/openapi.json",
        lifespan=lifespan,
        telemetry={"tracing": False, "metrics": False, "logs": False},  # `Traced` is ours, and looks for nobody
        middleware=_middleware(deps, callers, streams, bodies, _Pace(stalled_s, quick_s)),
    )
    app.state.deps = deps
    app.state.callers = callers
    app.state.background = background
    app.state.watchers = watchers
    app.state.streams = streams
    app.state.shown = shared.LinkUse(deps.settings.user_streams)
    app.state.by_address = by_address.AddressUse(deps.settings.user_streams)
    app.state.unpacking = Unpacking(deps.settings.unpacked_mb << 20)
    app.state.bodies = bodies
    app.state.comparing = Comparing()
    app.state.footage = Footage()
    app.state.pictures = DecodingTurns("pictures of videos", most=frames.MOST_WAITING, at_once=2)
    app.state.parts = Parts(deps)
    app.state.providers = providers
    problem.install(app)
    let_in(app, deps.settings.other_origins)
    for module in _ROUTES:
        # not included, for which FastAPI would make all their schemas anew at an application's first request
        app.router.routes.extend(module.router.routes)
    add_page(app, deps.settings.web_path)
    describe(app, extra_models=(Envelope, CreateBatch, CreateRender, FileChanges, ProcessOutput))
    return app


class _Pace(NamedTuple):
    """After how long a body is given up of which nothing comes, and takes a place of its own, in seconds."""

    stalled_s: float
    quick_s: float


class _Bodies:
    """How large a request's body may be, by its address, and where it lies.

    Args:
        upload_bytes: How much may be sent where files are.
        disk_bytes: How much of all that is sent lies on the disk at once.

    Attributes:
        disk: What is held on the disk.
        folders: What is held of it by zips of folders.
    """

    def __init__(self, *, upload_bytes: int, disk_bytes: int) -> None:
        self._upload_bytes = upload_bytes
        self.disk = Unpacking(disk_bytes, setting="KODA_UNPACKED_DISK_MB")
        # a folder that is sent is unpacked beside its zip: zips leave half of the disk's room to what they wait for
        self.folders = Unpacking(disk_bytes // 2, setting="KODA_UNPACKED_DISK_MB", share="a quarter")

    def limit_bytes(self, scope: Scope) -> int:
        """Return how large a body may be, in bytes."""
        if scope["path"].startswith(shared.router.prefix):
            return shared.MAX_COMMENT_BYTES
        if _lies_on_disk(scope):
            return self._upload_bytes
        return MAX_PAGE_JSON_BYTES if scope["path"].endswith(_PAGES) else MAX_JSON_BYTES

    def limits(self, scope: Scope) -> tuple[Unpacking, ...]:
        """Return where it is counted before it is received."""
        if not _lies_on_disk(scope):
            return ()
        return (self.folders, self.disk) if scope["path"].endswith("/v1/images") else (self.disk,)


def _lies_on_disk(scope: Scope) -> bool:
    path = scope["path"]
    if path.endswith(_PAGES):
        return not is_json(Headers(scope=scope))
    return path.endswith(("/v1/assets", "/v1/images")) or sandbox_files.takes_files(path)


def _middleware(deps: ApiDeps, callers: Callers, streams: Streams, bodies: _Bodies, pace: _Pace) -> list[Middleware]:
    """Return what is asked of a request before it comes to its route, the outermost first."""
    changes = Rates(deps.settings.user_changes_per_min, way_out=CHANGE_LESS).take
    return [
        Middleware(HangUps),
        Middleware(ReadingDeadline, unread_s=pace.stalled_s),
        Middleware(
            Gate,
            callers=callers,
            public=is_public,
            limit_bytes=bodies.limit_bytes,
            asked=streams.asked,
            changes=changes,
        ),
        Middleware(Traced),
        Middleware(BodyLimit, limit_bytes=bodies.limit_bytes),
        Middleware(BodyDeadline, joined=streams.joined, stalled_s=pace.stalled_s, quick_s=pace.quick_s),
        Middleware(BodyReservation, limits=bodies.limits, limit_bytes=bodies.limit_bytes),
    ]
