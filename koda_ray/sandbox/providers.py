"""The providers that people's own sandboxes need, several kinds side by side, and which of their rows are here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from koda_ray.errors import InvalidInput
from koda_ray.sandbox.images import DockerImages, ImageMaker, LocalImages
from koda_ray.sandbox.service import choose, provider_from

if TYPE_CHECKING:
    from koda_ray.config import Settings
    from koda_ray.sandbox.base import SandboxProvider
    from koda_ray.state.boxes import BoxStore, ImageRecord, SandboxRecord

__all__ = ["Providers"]

_NAMES = ("local", "docker", "e2b", "modal")


class Providers:
    """The providers of one deployment, each made when it is asked for.

    Args:
        settings: What describes them.
        store: The deployment's database.
        told: Told, in a line for people, what ``SANDBOX_PROVIDER=auto`` came to, once that had to be found out.
        clouds: Whether rows of what is reached from everywhere are here too; else only this machine's are.
    """

    def __init__(
        self, settings: Settings, store: BoxStore, *, told: Callable[[str], None] | None = None, clouds: bool = True
    ) -> None:
        self._settings = settings
        self._store = store
        self._told = told
        self._clouds = clouds
        self._made: dict[str, SandboxProvider] = {}
        self._makers: dict[str, ImageMaker] = {}
        self._making = asyncio.Lock()

    @property
    def max_sandboxes(self) -> int:
        """How many of their own a person may have in one place at once (SANDBOX_PER_USER)."""
        return self._settings.sandbox_per_user

    @property
    def max_images(self) -> int:
        """How many images a person may have in one place at once (SANDBOX_IMAGES_PER_USER)."""
        return self._settings.sandbox_images_per_user

    async def get(self, name: str | None = None) -> SandboxProvider:
        """Return a provider by its name; the one that SANDBOX_PROVIDER says when None.

        Raises:
            InvalidInput: INVALID_INPUT, there is no such provider.
        """
        wanted = name or self._settings.sandbox_provider
        if wanted != "auto" and wanted not in _NAMES:
            raise InvalidInput(f"{wanted[:40]!r} is no provider of sandboxes; name one of {', '.join(_NAMES)}")
        async with self._making:
            if wanted not in self._made:
                chosen = await asyncio.to_thread(choose, self._settings) if wanted == "auto" else None
                if chosen is not None and self._told is not None:
                    self._told(str(chosen))
                kind = wanted if chosen is None else chosen.name
                if kind not in self._made:
                    settings = self._settings.model_copy(update={"sandbox_provider": kind})
                    deployment = await self._store.deployment()
                    self._made[kind] = await asyncio.to_thread(provider_from, settings, deployment=deployment)
                self._made[wanted] = self._made[kind]
            return self._made[wanted]

    async def at(self, row: SandboxRecord | ImageRecord) -> SandboxProvider | None:
        """Return the provider that has what a row is about; None where that is in another place.

        Raises:
            KodaError: It could not be asked.
        """
        found = await self.get(row.provider)
        location = await found.location()
        here = location.is_where(row.place, row.host) and (self._clouds or not location.everywhere)
        return found if here else None

    async def images(self, name: str) -> ImageMaker:
        """Return who makes a provider's images.

        Raises:
            InvalidInput: INVALID_INPUT, nobody here does.
            Missing: MISSING, its package, key or image.
        """
        if name not in self._makers:
            self._makers[name] = await self._maker(name)
        return self._makers[name]

    async def _maker(self, name: str) -> ImageMaker:
        match name:
            case "local":
                return LocalImages(self._settings.sandbox_path / await self._store.deployment() / "images")
            case "docker":
                return DockerImages(self._settings)
            case "e2b":
                from koda_ray.sandbox.e2b_images import E2BImages

                return E2BImages(self._settings)
            case "modal":
                from koda_ray.sandbox.modal_images import ModalImages

                return ModalImages(self._settings)
            case _:
                raise InvalidInput(f"{name[:40]!r} is no provider of images; name one of {', '.join(_NAMES)}")

    async def close(self) -> None:
        """Leave every sandbox to whoever connects next; may be called twice."""
        made, self._made = self._made, {}
        for provider in {id(provider): provider for provider in made.values()}.values():
            await provider.close()
