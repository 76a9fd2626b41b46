"""The server: the HTTP application on Ray Serve, the live preview beside it, and an orderly end for both.

This is the only part of ``serve`` that knows Ray. The API runs in Serve's replicas and keeps nothing: state is in the
store, work is in session actors. The preview proxy runs in this process, because a sandbox's socket is on its machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import socket
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, nullcontext
from typing import Any, cast

import ray
from fastapi import FastAPI
from pydantic import SecretStr
from ray import serve
from ray.serve import context as serve_context
from ray.serve.exceptions import RayServeException

from koda_ray.actors.directory import RayDirectory, public_settings
from koda_ray.actors.eyes import RayEyes
from koda_ray.actors.host import NAMESPACE, RENDERS_PREFIX, SESSION_PREFIX, await_session_slots
from koda_ray.actors.janitor_host import JANITOR, keep_janitor, start_janitor
from koda_ray.actors.owed_waker import OwedWaker
from koda_ray.actors.parts import sandbox_provider
from koda_ray.actors.ray_metrics import RayMetrics
from koda_ray.actors.seeing import own_node
from koda_ray.actors.waking import WakingPace
from koda_ray.agent.named_hooks import NamedHooks
from koda_ray.cancellation import end_all
from koda_ray.config import REPO_ROOT, SERVER_OWNED, Settings, env_file
from koda_ray.errors import InvalidInput, KodaError, Unavailable
from koda_ray.logs import get_logger, name_process
from koda_ray.render.memory import usual_browsers
from koda_ray.resources import CHROMIUM_RESOURCE, SESSION_RESOURCE, URGENT_RESOURCE
from koda_ray.sandbox.base import SandboxProvider
from koda_ray.sandbox.providers import Providers
from koda_ray.serve import ray_folder, runfile
from koda_ray.serve.api import create_app
from koda_ray.serve.auth import Authenticator, decide_keys
from koda_ray.serve.backlog import HeldBack
from koda_ray.serve.deps import ApiDeps
from koda_ray.serve.held_port import beside_port, hold_port
from koda_ray.serve.inflow import TakenAsAsked
from koda_ray.serve.listening import KEEP_ALIVE_S, api_listening
from koda_ray.serve.preview import create_preview_app
from koda_ray.serve.preview_server import PreviewServer
from koda_ray.serve.preview_sources import Sources, Surroundings, reaching
from koda_ray.serve.signing import Signer, signing_key
from koda_ray.serve.stored_pages import StoredPages
from koda_ray.state.many_nodes import refuse_own_disk
from koda_ray.state.storage import Storage
from koda_ray.state.stores import store_from

__all__ = ["application", "build", "check_replica", "checked_settings", "main", "run"]

APP_NAME = "koda"
REPLICA_OPTIONS: dict[str, Any] = {
    "name": "api",
    "num_replicas": 1,
    "max_ongoing_requests": 1000,  # through proxies: the default of 5 would be used up by five people watching
    "graceful_shutdown_timeout_s": 10.0,
    "graceful_shutdown_wait_loop_s": 0.5,
    "health_check_period_s": 10.0,
    "ray_actor_options": {"num_cpus": 0},  # it waits; the CPUs are for rendering
}
OBJECT_STORE_BYTES = 128 * 1024 * 1024
"""Small values only: frames and files never pass through Ray."""
PLACES = 100_000
"""How many sessions one machine of its own holds: as many as its memory does."""
CONNECTIONS_OF_API = 8
"""How many connections to the database a replica has at most: it answers for many at once."""
PASSIVATE_S = 15.0
_WORKER_NICE = 0
"""Those who answer people (the API, sessions) do so as readily as Ray's own parts, which its default of 15 puts before
them; what renders, and what runs in sandboxes, is nicer by itself."""
_IDLE_WORKER_MS = 20_000
"""How long Ray keeps a task's process for the next task: one that it starts takes a second to load what it needs."""
_PR_SET_PDEATHSIG = 1
_QUIET = {"log_level": "WARNING", "enable_access_log": False}
# Ray's own types for these are incomplete
_RAY = cast(Any, ray)
_SERVE = cast(Any, serve)
_SERVE_CONTEXT = cast(Any, serve_context)
_log = get_logger(__name__)


class _Api:
    """The class around the application in each replica."""

    app: FastAPI  # set by Serve

    async def __init__(self, public: Mapping[str, object]) -> None:
        # here and not as the application starts: of that, Serve tells nobody what went wrong
        await check_replica(Settings.model_validate(public))

    async def drain(self) -> None:
        """End open event streams; their clients come back to whoever serves next."""
        cast("ApiDeps", self.app.state.deps).draining.set()

    async def check_health(self) -> None:
        """Called by Serve every few seconds; what it raises is why this replica is not healthy."""
        listening = cast("asyncio.Task[None] | None", self.app.state.listening)
        if listening is not None and listening.done():
            listening.result()
            raise RuntimeError("nobody listens at the API's port any more")


def build(settings: Settings, *, preview_port: int | None, listens: bool = False) -> Any:
    """Describe the Serve application.

    Args:
        settings: Where everything is. Secrets are not sent: each replica reads those from its own environment.
        preview_port: Where the live preview answers; None turns it off.
        listens: Whether the one replica listens itself, where the settings say: a port that this process holds.

    Returns:
        What ``serve.run`` and Serve's config files take.
    """
    public = public_settings(settings)

    def make() -> FastAPI:
        return application(Settings.model_validate(public), preview_port, listens=listens)

    wrap = _SERVE.ingress
    deploy = _SERVE.deployment
    return deploy(**REPLICA_OPTIONS)(wrap(make)(_Api)).bind(public)


async def check_replica(settings: Settings) -> None:
    """See that a replica could know who asks.

    Args:
        settings: As of `application`.

    Raises:
        InvalidInput: Keys are required, and this node knows none.
    """
    store = store_from(settings, processes="many")
    await store.open()
    try:
        await Authenticator.from_settings(settings, store).check()
    finally:
        await store.close()


def application(settings: Settings, preview_port: int | None, *, listens: bool = False) -> FastAPI:
    """Make what a replica serves.

    Args:
        settings: As they were handed on, with the secrets of this process's own environment.
        preview_port: As of `build`.
        listens: As of `build`.
    """
    store = store_from(settings, processes="many", connections=CONNECTIONS_OF_API)
    storage = Storage.from_settings(settings)

    async def sandboxes() -> SandboxProvider:
        return await asyncio.to_thread(sandbox_provider, settings, deployment=await store.deployment())

    directory = RayDirectory(settings, store=store, storage=storage, sandboxes=sandboxes)
    deps = ApiDeps(
        settings=settings,
        store=store,
        storage=storage,
        directory=directory,
        auth=Authenticator.from_settings(settings, store),
        signer=Signer.from_settings(settings),
        preview_port=preview_port,
        eyes=RayEyes(),
        metrics=RayMetrics(),
    )

    @asynccontextmanager
    async def running() -> AsyncGenerator[None]:
        if _RAY.is_initialized():
            name_process(node=own_node())
        await store.open()
        waker = OwedWaker(
            store,
            wake=directory.wake,
            wake_render=directory.wake_render,
            pace=WakingPace(first_pause_s=settings.janitor_s),
        )
        keeping = asyncio.create_task(keep_janitor(settings, deps.draining, waker, directory.presence))
        try:
            port = beside_port(settings.host, settings.port) if listens else None
            async with nullcontext() if port is None else api_listening(app, port) as app.state.listening:
                yield
        finally:
            await end_all((keeping,))
            await directory.close()
            await store.close()

    app = create_app(deps, running=running)
    if not listens:
        app.middleware_stack = HeldBack(TakenAsAsked(app.build_middleware_stack()))
    return app


def run(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT, then stop everything that this started.

    On a cluster that runs already, ``KODA_SIGNING_KEY`` has to be in its nodes' environments as other secrets are.

    Raises:
        InvalidInput: A port is in use, a hook cannot be found, the settings would expose a server without keys, the
            cluster has several nodes and the database or the storage is one machine's, or no node holds sessions.
        Unavailable: The API did not start.
    """
    settings = asyncio.run(checked_settings(settings))
    if os.environ.get("KODA_ENV_FILE"):  # Ray's processes stand in another folder
        os.environ["KODA_ENV_FILE"] = str(env_file())
    # one key for the API, which signs, and the preview, which checks: Ray's processes inherit what is set before it
    os.environ["KODA_SIGNING_KEY"] = signing_key(settings).decode()
    settings = settings.model_copy(update={"signing_key": SecretStr(os.environ["KODA_SIGNING_KEY"])})
    with (
        hold_port(settings.host, settings.port, name="KODA_PORT") as held,
        hold_port(settings.host, settings.preview_port, name="KODA_PREVIEW_PORT") as preview,
    ):
        _serve(settings, port=int(held.getsockname()[1]), preview=preview)


def _serve(settings: Settings, *, port: int, preview: socket.socket) -> None:
    temp = _start_ray(settings)
    try:
        listens = settings.ray_address is None
        if listens:
            _SERVE.start(proxy_location="Disabled", logging_config=_QUIET)
        else:
            _start_proxies(settings.host, port)
        at = settings.model_copy(update={"port": port})
        try:
            handle = _deploy(build(at, preview_port=int(preview.getsockname()[1]), listens=listens))
            asyncio.run(_attend(settings, handle, port=port, preview=preview))
        finally:
            with contextlib.suppress(Exception):  # an end is an end; what is left is killed with the cluster
                _SERVE.delete(APP_NAME) if _others_apps() else _SERVE.shutdown()
    finally:
        _RAY.shutdown()
        if temp is not None:
            ray_folder.remove(temp)


def _start_proxies(host: str, port: int) -> None:
    """Start Serve on a cluster of one's own; one that runs there already listens where it was told to, whatever we say.

    Raises:
        InvalidInput: It listens elsewhere, so that what was decided about keys would not hold, and serves others.
    """
    with contextlib.suppress(RayServeException):
        there = _SERVE_CONTEXT._get_global_client().http_config  # says it nowhere else
        if (there.host, there.port) != (host, port):
            if others := _others_apps():
                raise InvalidInput(
                    f"Serve runs already on this Ray, for {', '.join(sorted(others))}, and listens on "
                    f"{there.host}:{there.port}: set KODA_HOST={there.host} and KODA_PORT={there.port} to be served "
                    "beside them, or end it with: serve shutdown"
                )
            _SERVE.shutdown()  # left by a server of ours that was killed
    _SERVE.start(
        proxy_location="HeadOnly",
        http_options={"host": host, "port": port, "keep_alive_timeout_s": KEEP_ALIVE_S},
        logging_config=_QUIET,
    )


def _others_apps() -> set[str]:
    return {name for name in _SERVE.status().applications if name != APP_NAME}


def _deploy(application: Any) -> Any:
    """Have Serve start the API; return its handle.

    Raises:
        Unavailable: It did not start; the message has what its replica said last.
    """
    try:
        return _SERVE.run(application, name=APP_NAME, route_prefix="/", blocking=False, logging_config=_QUIET)
    except TimeoutError as error:
        raise Unavailable(f"the API does not start: {error}") from error
    except RuntimeError as error:
        found = _SERVE.status().applications.get(APP_NAME)
        said = [one.message for one in found.deployments.values()] if found is not None else []
        lines = [line.strip() for message in said for line in message.splitlines() if line.strip()]
        raise Unavailable(f"the API does not start: {lines[-1] if lines else error}") from error


async def checked_settings(settings: Settings) -> Settings:
    """Refuse settings with which nothing should be served, and decide whether keys are required.

    Raises:
        InvalidInput: A hook cannot be found, or the server would be exposed without keys.
    """
    NamedHooks(settings.hook_names)
    store = store_from(settings, processes="many")
    await store.open()
    try:
        return await decide_keys(settings, store)
    finally:
        await store.close()


def _start_ray(settings: Settings) -> str | None:
    """Join a cluster, or start one on this machine; return the folder to remove afterwards."""
    # Ray has every worker look for modules first in the folder that one stands in: that may be a page's that was cloned
    with contextlib.chdir(REPO_ROOT):
        return _init_ray(settings)


def _init_ray(settings: Settings) -> str | None:
    init = _RAY.init
    if settings.ray_address is not None:
        init(address=settings.ray_address, namespace=NAMESPACE, log_to_driver=False)
        refuse_own_disk(
            database=settings.database_provider,
            storage=settings.storage_provider,
            nodes=sum(bool(node["Alive"]) for node in _RAY.nodes()),
        )
        await_session_slots()
        return None
    cpus = len(os.sched_getaffinity(0))
    browsers = settings.render_workers or usual_browsers()
    temp = ray_folder.make()
    # lines will do in its processes' tracebacks: the columns of all code take 1 MB of each
    os.environ.setdefault("PYTHONNODEBUGRANGES", "1")
    init(
        address="local",
        namespace=NAMESPACE,
        num_cpus=max(cpus, browsers),
        resources={CHROMIUM_RESOURCE: browsers, URGENT_RESOURCE: browsers, SESSION_RESOURCE: PLACES},
        include_dashboard=False,
        _system_config={"worker_niceness": _WORKER_NICE, "idle_worker_killing_time_threshold_ms": _IDLE_WORKER_MS},
        object_store_memory=OBJECT_STORE_BYTES,
        log_to_driver=True,
        _temp_dir=temp,
    )
    return temp


async def _attend(settings: Settings, handle: Any, *, port: int, preview: socket.socket) -> None:
    """Run the preview proxy and wait for the end."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    store = store_from(settings, processes="many")
    await store.open()
    storage = Storage.from_settings(settings)
    sandboxes = sandbox_provider(settings, deployment=await store.deployment())

    async def same() -> SandboxProvider:
        return sandboxes

    directory = RayDirectory(settings, store=store, storage=storage, sandboxes=same)
    providers = Providers(settings, store)
    preview_port = int(preview.getsockname()[1])
    shown = "127.0.0.1" if settings.host in ("0.0.0.0", "::") else settings.host
    path = runfile.runfile_path(settings)
    try:
        await start_janitor(settings, directory.presence)
        signer = Signer.from_settings(settings)
        app = create_preview_app(
            directory,
            signer,
            api_port=port,
            sources=Sources(reach=reaching(store, providers), pages=StoredPages(storage)),
            around=Surroundings.from_settings(settings),
        )
        server = PreviewServer(app)
        showing = asyncio.create_task(server.show(preview))
        url = f"http://{shown}:{port}"
        runfile.write(path, url=url, preview_url=settings.preview_origin or f"http://{shown}:{preview_port}")
        _log.info("serving", url=url, preview_port=preview_port, pid=os.getpid())
        try:
            await asyncio.wait({showing, asyncio.ensure_future(stop.wait())}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            runfile.remove(path)
            server.should_exit = True
            await asyncio.wait_for(handle.drain.remote(), 5)
            await showing
            if settings.ray_address is None:
                await _passivate()
                own = {row.id for row in await store.own_sandboxes()}  # people's, which run on without a server
                for info in await sandboxes.list():
                    if info.id not in own:
                        await sandboxes.destroy(info.id)
    finally:
        await directory.close()
        await providers.close()
        await store.close()


async def _passivate() -> None:
    """Let sessions save and end their sandboxes, and renders stop, since this machine's cluster is about to go."""
    named = _RAY.util.list_named_actors(all_namespaces=True)
    get = _RAY.get_actor
    names = [found["name"] for found in named if found["namespace"] == NAMESPACE]
    if JANITOR in names:  # first, or it would wake what we put to sleep
        _RAY.kill(get(JANITOR, namespace=NAMESPACE), no_restart=True)
    closing = [
        asyncio.ensure_future(get(name, namespace=NAMESPACE).close.remote())
        for name in names
        if name.startswith((SESSION_PREFIX, RENDERS_PREFIX))
    ]
    if closing:
        _, late = await asyncio.wait(closing, timeout=PASSIVATE_S)
        for task in late:
            task.cancel()
        if late:
            _log.warning("sessions did not save in time; they go on from their last checkpoint", count=len(late))


def main(settings: Settings) -> int:
    """Run a server; return the exit status."""
    _end_with_parent()
    with contextlib.suppress(ValueError):
        signal.signal(signal.SIGTERM, _interrupted)  # until the loop takes over
    try:
        run(settings)
    except KodaError as error:
        sys.stderr.write(f"koda serve: {error.message}\n")
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


def _end_with_parent() -> None:
    """Have a server that the CLI started for one job end when the CLI does, however that ends. Source: prctl(2)."""
    parent = os.environ.pop(SERVER_OWNED, None)
    if parent is not None:
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != int(parent):  # it ended before we could ask for that
            raise SystemExit(0)


def _interrupted(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt
