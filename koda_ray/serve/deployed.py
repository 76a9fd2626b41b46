"""The server as a Serve config file names it, on a cluster that somebody else starts and keeps: `api` and `janitor`.

There is no process of ours beside the cluster then (KubeRay's operator hands the file to Ray), so nobody could start
the janitor and nobody makes a key for signatures: the one is an application without a route whose health is the
janitor's, the other has to be in the environment of every node.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, cast

import ray
from ray import serve

from koda_ray.actors.directory import public_settings
from koda_ray.actors.janitor_host import start_janitor
from koda_ray.config import Settings
from koda_ray.errors import InvalidInput
from koda_ray.serve.app import build, checked_settings
from koda_ray.state.many_nodes import refuse_own_disk

__all__ = ["api", "described", "janitor"]

_CARETAKER: dict[str, Any] = {
    "name": "caretaker",
    "num_replicas": 1,
    "health_check_period_s": 10.0,
    "health_check_timeout_s": 90.0,  # longer than a janitor may take to start
    "ray_actor_options": {"num_cpus": 0},
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
    """Starts the cluster's janitor, and again where it has ended."""

    def __init__(self, public: Mapping[str, object]) -> None:
        self._settings = Settings.model_validate(public)

    async def check_health(self) -> None:
        """Called by Serve every few seconds; what it raises is why this replica is not healthy."""
        await start_janitor(self._settings)


def _settings() -> Settings:
    """Read the environment of the node that describes the application, as Serve's own task."""
    settings = Settings()
    refuse_own_disk(
        database=settings.database_provider,
        storage=settings.storage_provider,
        nodes=sum(bool(node["Alive"]) for node in _RAY.nodes()),
    )
    return settings
