"""Which provider makes sandboxes here, and clearing away those that nobody needs any more."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from koda_ray.errors import Missing
from koda_ray.sandbox.base import KeepsWarm, SandboxInfo, SandboxProvider
from koda_ray.sandbox.record import created_at_s
from koda_ray.types import now

if TYPE_CHECKING:
    from koda_ray.config import Settings
    from koda_ray.sandbox.engine import Image

__all__ = ["REAP_GRACE_S", "Choice", "SandboxService", "choose", "other_providers", "provider_from"]

REAP_GRACE_S = 60.0
"""How long a sandbox whose owner lives is left alone although nobody names it: it may just be coming into being."""

_OF_OUR_PROXY = {
    "sandbox_egress_denied": "SANDBOX_EGRESS_DENIED",
    "sandbox_egress_sent_mb": "SANDBOX_EGRESS_SENT_MB",
    "sandbox_egress_received_mb": "SANDBOX_EGRESS_RECEIVED_MB",
}


def provider_from(settings: Settings, *, deployment: str) -> SandboxProvider:
    """Make the provider that SANDBOX_PROVIDER names; ``auto`` looks for a Docker engine with the image, and blocks.

    Args:
        settings: What describe it.
        deployment: Whose sandboxes it makes, finds and removes (``Store.deployment``).
    """
    # imported when sandboxes are made, not by whoever may make one
    if settings.sandbox_provider == "docker" or (
        settings.sandbox_provider == "auto" and choose(settings).name == "docker"
    ):
        from koda_ray.sandbox.docker import DockerProvider

        return DockerProvider.of(settings, deployment=deployment)
    if settings.sandbox_provider in ("e2b", "modal"):
        unkept = (name for field, name in _OF_OUR_PROXY.items() if field in settings.model_fields_set)
        _warn_unkept(settings.sandbox_provider, tuple(unkept))
    if settings.sandbox_provider == "e2b":
        from koda_ray.sandbox.e2b import E2BProvider

        return E2BProvider.of(settings, deployment=deployment)
    if settings.sandbox_provider == "modal":
        from koda_ray.sandbox.modal import ModalProvider

        return ModalProvider.of(settings, deployment=deployment)
    from koda_ray.sandbox.local import LocalProvider

    return LocalProvider.of(settings, deployment=deployment)


@lru_cache
def _warn_unkept(provider: str, names: tuple[str, ...]) -> None:
    """Say once which settings nobody holds in a cloud, whose own network lets sandboxes out."""
    from koda_ray.logs import get_logger

    if names:
        get_logger(__name__).warning(
            "these settings hold for sandboxes of this machine only: the provider lets out by host and no more. "
            "Unset them, or use SANDBOX_PROVIDER=local or docker where they must hold",
            provider=provider,
            settings=", ".join(names),
        )


def other_providers(
    settings: Settings,
    current: SandboxProvider,
    *,
    deployment: str,
    named: Collection[str] = (),
    known: Collection[str] = (),
) -> list[SandboxProvider]:
    """Make the providers that may have sandboxes although new ones are made elsewhere.

    ``auto`` takes another when the engine comes and goes, and people change settings.

    Args:
        settings: What describe them.
        current: Makes new ones.
        deployment: Whose.
        named: Which the rows of sandboxes name. A cloud whose key is gone from the settings is left to end them itself.
        known: Which were made before, and are not made again.
    """
    found: list[SandboxProvider] = []
    had = {current.name, *known}
    own = settings.sandbox_path / deployment
    if "local" not in had and own.is_dir():
        from koda_ray.sandbox.local import LocalProvider

        found.append(LocalProvider.of(settings, deployment=deployment))
    if "docker" not in had and (own / "docker" / "installation").is_file():
        from koda_ray.sandbox.docker import DockerProvider

        found.append(DockerProvider.of(settings, deployment=deployment))
    for name in ("e2b", "modal"):
        if name in named and name not in had:
            with suppress(Missing):
                there = settings.model_copy(update={"sandbox_provider": name})
                found.append(provider_from(there, deployment=deployment))
    return found


@dataclass(frozen=True)
class Choice:
    """Which provider ``SANDBOX_PROVIDER=auto`` comes to here and now, and why."""

    name: Literal["docker", "local"]
    why: str

    def __str__(self) -> str:
        return f"sandbox provider: {self.name}, because {self.why} (SANDBOX_PROVIDER=auto)"


def choose(settings: Settings) -> Choice:
    """Look whether a Docker engine answers that holds the image, and choose by that; blocks."""
    from koda_ray.logs import get_logger
    from koda_ray.sandbox.engine import Engine

    image = Engine(settings.docker_host).look(settings.sandbox_image)
    if isinstance(image, str):
        choice = Choice("local", image)
    elif _is_ours(image):
        choice = Choice("docker", f"the Docker engine answers and holds {settings.sandbox_image}")
    else:
        choice = Choice(
            "local", f"another koda_ray built the engine's {settings.sandbox_image} (koda image build makes it anew)"
        )
    get_logger(__name__).info(
        "sandbox provider chosen", provider=choice.name, why=choice.why, image=settings.sandbox_image
    )
    return choice


def _is_ours(image: Image) -> bool:
    from koda_ray.sandbox.image import AGENT_LABEL, agent_digest

    return image.labels.get(AGENT_LABEL) == agent_digest()


class SandboxService:
    """Sandboxes as a whole: the provider, and the reaper.

    Args:
        provider: Makes, finds and removes single sandboxes.
    """

    def __init__(self, provider: SandboxProvider) -> None:
        self.provider = provider

    async def keep_warm(self) -> None:
        """Keep sandboxes ready for whoever needs one, until cancelled; over at once where the provider makes none."""
        if isinstance(self.provider, KeepsWarm):
            await self.provider.keep_warm()

    async def reap(
        self,
        live_ids: Collection[str],
        *,
        live_provider_ids: Collection[str] = (),
        found: Sequence[SandboxInfo] | None = None,
    ) -> list[str]:
        """Destroy sandboxes that are provably ours and that no row names.

        Only what the provider lists is looked at: what is of this deployment, and here. One that is younger than a
        minute and whose owner still runs is left alone: its row may have been written after ``live_ids`` was read. So
        is one that was made ahead, for as long as its owner runs.

        Args:
            live_ids: The ids of rows that may still be used.
            live_provider_ids: What those say is theirs at the provider: a container, say, whose record is lost and
                which carries the id that it was made ahead under.
            found: What the provider listed before those rows were read, and no other is touched: a row is written
                before its sandbox is made, so one that was there and that no row names will never be named, however
                long this is held up. When None, it is listed now.

        Returns:
            The ids of those that were destroyed.
        """
        gone: list[str] = []
        for info in await self.provider.list() if found is None else found:
            young = now().timestamp() - created_at_s(info.id) < REAP_GRACE_S
            needed = info.id in live_ids or info.provider_id in live_provider_ids
            if needed or ((young or info.warm) and info.owner_alive):
                continue
            await self.provider.destroy(info.id)
            gone.append(info.id)
        return gone
