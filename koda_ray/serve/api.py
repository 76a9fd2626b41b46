"""The HTTP application: routes, errors, limits and documentation around the parts that it is given.

No Ray here. The same application runs under uvicorn in tests and inside Ray Serve in production.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

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
from koda_ray.serve.deps import ApiDeps
from koda_ray.serve.gate import Gate
from koda_ray.serve.hangups import HangUps
from koda_ray.serve.limits import BodyLimit
from koda_ray.serve.openapi import describe, is_public
from koda_ray.serve.pace import STALLED_S
from koda_ray.serve.pages import MAX_PAGE_JSON_BYTES, is_json
from koda_ray.serve.parts import Parts
from koda_ray.serve.quotas import Streams
from koda_ray.serve.rates import CHANGE_LESS, Rates
from koda_ray.serve.routes import (
    all_events,
    assets,
    batches,
    by_address,
    capabilities,
    cluster,
    commands,
    comparing,
    events,
    files,
    health,
    history,
    images,
    jobs,
    login,
    media,
    plugins,
    preview,
    processes,
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
from koda_ray.serve.web import web_router
from koda_ray.wire import CreateBatch, CreateRender, FileChanges, ProcessOutput

__all__ = ["MAX_JSON_BYTES", "create_app"]


@asynccontextmanager
async def _nothing() -> AsyncGenerator[None]:
    yield


MAX_JSON_BYTES = 1024 * 1024
"""Limit for every body but an upload's: a prompt of 20,000 characters, each escaped, is a quarter of this."""
_PAGES = ("/v1/renders", "/v1/renders/batches")


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
    uploads = deps.settings.max_body_mb * 1024 * 1024

    def lies_on_disk(scope: Scope) -> bool:
        path = scope["path"]
        if path.endswith(_PAGES):
            return not is_json(Headers(scope=scope))
        return path.endswith(("/v1/assets", "/v1/images")) or sandbox_files.takes_files(path)

    def limit_bytes(scope: Scope) -> int:
        if scope["path"].startswith(shared.router.prefix):
            return shared.MAX_COMMENT_BYTES
        if lies_on_disk(scope):
            return uploads
        return MAX_PAGE_JSON_BYTES if scope["path"].endswith(_PAGES) else MAX_JSON_BYTES

    def limits(scope: Scope) -> tuple[Unpacking, ...]:
        if not lies_on_disk(scope):
            return ()
        return (app.state.folders, app.state.disk) if scope["path"].endswith("/v1/images") else (app.state.disk,)

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
        middleware=[
            Middleware(HangUps),
            Middleware(ReadingDeadline, unread_s=stalled_s),
            Middleware(
                Gate,
                callers=callers,
                public=is_public,
                limit_bytes=limit_bytes,
                asked=streams.asked,
                changes=Rates(deps.settings.user_changes_per_min, way_out=CHANGE_LESS).take,
            ),
            Middleware(Traced),
            Middleware(BodyLimit, limit_bytes=limit_bytes),
            Middleware(BodyDeadline, joined=streams.joined, stalled_s=stalled_s, quick_s=quick_s),
            Middleware(BodyReservation, limits=limits, limit_bytes=limit_bytes),
        ],
    )
    app.state.deps = deps
    app.state.callers = callers
    app.state.background = background
    app.state.watchers = watchers
    app.state.streams = streams
    app.state.shown = shared.LinkUse(deps.settings.user_streams)
    app.state.unpacking = Unpacking(deps.settings.unpacked_mb << 20)
    app.state.comparing = Comparing()
    app.state.parts = Parts(deps)
    disk = deps.settings.unpacked_disk_mb << 20
    app.state.disk = Unpacking(disk, setting="KODA_UNPACKED_DISK_MB")
    # a folder that is sent is unpacked beside its zip: zips leave half of the disk's room to what they wait for
    app.state.folders = Unpacking(disk // 2, setting="KODA_UNPACKED_DISK_MB", share="a quarter")
    app.state.providers = providers
    problem.install(app)
    let_in(app, deps.settings.other_origins)
    for module in (
        sessions,
        takes,
        commands,
        history,
        events,
        all_events,
        preview,
        files,
        media,
        by_address,
        versions,
        shares,
        shared,
        comparing,
        assets,
        jobs,
        batches,
        renders,
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
    ):
        # not included, for which FastAPI would make all their schemas anew at an application's first request
        app.router.routes.extend(module.router.routes)
    app.include_router(web_router(deps.settings.web_path))
    describe(app, extra_models=(Envelope, CreateBatch, CreateRender, FileChanges, ProcessOutput))
    return app
