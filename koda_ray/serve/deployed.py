"""The server as a Serve config file names it, on a cluster that somebody else keeps: `api`, `janitor`, `previews`.

There is no process of ours beside the cluster then (KubeRay's operator hands the file to Ray), so nobody could start
the janitor and nobody makes a key for signatures: the one is an application without a route whose health is the
janitor's, the other has to be in the environment of every node. Live previews are an application without a route too,
which listens at a port of its own (`koda_ray.serve.preview_server`), for an origin that nothing else has.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, cast

import ray
from ray import serve

from koda_ray.actors.directory import RayDirectory, public_settings
from koda_ray.actors.janitor_host import start_janitor
from koda_ray.actors.parts import sandbox_provider
from koda_ray.config import Settings
from koda_ray.errors import InvalidInput
from koda_ray.render.presence import Presence
from koda_ray.sandbox.base import SandboxProvider
from koda_ray.sandbox.providers import Providers
from koda_ray.serve.app import build, checked_settings
from koda_ray.serve.held_port import hold_port
from koda_ray.serve.preview import create_preview_app
from koda_ray.serve.preview_server import PreviewServer
from koda_ray.serve.preview_sources import Sources, Surroundings, reaching
from koda_ray.serve.signing import Signer
from koda_ray.serve.stored_pages import StoredPages
from koda_ray.state.many_nodes import refuse_own_disk
from koda_ray.state.storage import Storage
from koda_ray.state.stores import store_from

__all__ = ["api", "described", "janitor", "previews"]

_CARETAKER: dict[str, Any] = {
    "name": "caretaker",
    "num_replicas": 1,
    "health_check_period_s": 10.0,
    "health_check_timeout_s": 90.0,  # longer than a janitor may take to start
    "ray_actor_options": {"num_cpus": 0},
}
_SHOWING: dict[str, Any] = {
    **_CARETAKER,
    "name": "showing",
    "graceful_shutdown_timeout_s": 5.0,
}
# Ray's own types for these are incomplete
_RAY = cast(Any, ray)
_SERVE = cast(Any, serve)


def api(_arguments: Mapping[str, str]) -> Any:
    """Describe the HTTP application, for ``import_path: koda_ray.serve.deployed:api``.

    Raises:
        InvalidInput: As `koda_ray.serve.app.run`, or there is no ``KODA_SIGNING_KEY``.
    """
    return described(_settings())


def described(settings: Settings) -> Any:
    """Describe the HTTP application with given settings. Raises as `api`."""
    if settings.signing_key is None:
        raise InvalidInput(
            "several processes sign and check links here, so all need one key: set KODA_SIGNING_KEY in the environment "
            "of every node, from a secret (openssl rand -hex 32)"
        )
    # where it listens stands in Serve's file and not in KODA_HOST, so nobody is taken for whoever sits at the machine
    closed = settings.model_copy(update={"keys_required": True})
    return build(asyncio.run(checked_settings(closed)), preview_port=None)


def janitor(_arguments: Mapping[str, str]) -> Any:
    """Describe the application that keeps the janitor, for ``import_path: koda_ray.serve.deployed:janitor``.

    Raises:
        InvalidInput: A setting is wrong, or several nodes work and the database or the storage is one machine's.
    """
    deploy = _SERVE.deployment
    return deploy(**_CARETAKER)(_Caretaker).bind(public_settings(_settings()))


class _Caretaker:
    """Starts the cluster's janitor, and again where it has ended; says so where a cluster grew that must not."""

    def __init__(self, public: Mapping[str, object]) -> None:
        self._settings = Settings.model_validate(public)
        self._presence = Presence()

    async def check_health(self) -> None:
        """Called by Serve every few seconds; what it raises is why this replica is not healthy."""
        await asyncio.to_thread(_see_sharing, self._settings)
        await start_janitor(self._settings, self._presence)


def previews(_arguments: Mapping[str, str]) -> Any:
    """Describe the application that shows live previews, for ``import_path: koda_ray.serve.deployed:previews``.

    It listens at KODA_PREVIEW_PORT of the node that it is on, and wants KODA_PREVIEW_ORIGIN to lead there and nowhere
    else: what it shows may do there what a page of that origin may.

    Raises:
        InvalidInput: As `janitor`, or one of KODA_PREVIEW_ORIGIN and KODA_SIGNING_KEY is not set.
    """
    settings = Settings()
    if settings.preview_origin is None or settings.signing_key is None:
        raise InvalidInput(
            "live previews behind Serve need an origin that nothing else has, and the key that signs their addresses: "
            "set KODA_PREVIEW_ORIGIN (https://previews.example.com) and KODA_SIGNING_KEY on every node"
        )
    deploy = _SERVE.deployment
    return deploy(**_SHOWING)(_Showing).bind(public_settings(_settings()))


class _Showing:
    """The preview's proxy in a process of Serve's."""

    async def __init__(self, public: Mapping[str, object]) -> None:
        settings = Settings.model_validate(public)
        store = store_from(settings, processes="many")
        await store.open()

        async def sandboxes() -> SandboxProvider:
            return await asyncio.to_thread(sandbox_provider, settings, deployment=await store.deployment())

        storage = Storage.from_settings(settings)
        directory = RayDirectory(settings, store=store, storage=storage, sandboxes=sandboxes)
        app = create_preview_app(
            directory,
            Signer.from_settings(settings),
            api_port=settings.port,
            sources=Sources(reach=reaching(store, Providers(settings, store)), pages=StoredPages(storage)),
            around=Surroundings.from_settings(settings),
        )
        self._held = hold_port("0.0.0.0", settings.preview_port, name="KODA_PREVIEW_PORT")
        self._task = asyncio.create_task(PreviewServer(app).show(self._held))

    async def check_health(self) -> None:
        """Called by Serve every few seconds; what it raises is why this replica is not healthy."""
        if self._task.done():
            self._task.result()
            raise RuntimeError("the preview's server has ended")


def _settings() -> Settings:
    """Read the environment of the node that describes the application, as Serve's own task."""
    settings = Settings()
    _see_sharing(settings)
    return settings


def _see_sharing(settings: Settings) -> None:
    """See that all nodes of the cluster reach the database and the storage. Raises InvalidInput."""
    refuse_own_disk(
        database=settings.database_provider,
        storage=settings.storage_provider,
        nodes=sum(bool(node["Alive"]) for node in _RAY.nodes()),
    )
