"""Images of people's own sandboxes at Modal, each built from the one that MODAL_IMAGE names.

Once it is built it is published under a name that holds our id of it. What a killed build left has no name: Modal
keeps it, at no cost, and the same build finds it again.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from koda_ray.errors import InvalidInput, Missing, SandboxError
from koda_ray.sandbox.modal_app import ModalApp, published
from koda_ray.sandbox.scratch import scratch
from koda_ray.sandbox.sent_project import PLACE, UNPACK, dockerfile_on_base, write_project

import modal  # isort: skip - `modal_app` says what is missing where it is not installed
from modal import exception as wrong
from modal import experimental

if TYPE_CHECKING:
    from koda_ray.config import Settings
    from koda_ray.sandbox.images import Source

__all__ = ["ModalImages"]


class ModalImages:
    """Images at Modal.

    Args:
        settings: The token, the app, and the image that all start from.

    Raises:
        Missing: MISSING, there is no token, or no image.
    """

    builds_away = True

    def __init__(self, settings: Settings) -> None:
        self._app = ModalApp.of(settings, why="images at Modal need")
        if settings.modal_image is None:
            raise Missing(
                "images at Modal are made of the one that MODAL_IMAGE names: `koda image build --provider modal` "
                "builds it and prints its id"
            )
        self._base = settings.modal_image

    async def basis(self) -> str:
        """Return the image that all start from; see ``ImageMaker``."""
        return self._base

    async def make(self, image_id: str, source: Source, *, clean: bool) -> str:
        """Have Modal build it; see ``ImageMaker``.

        Raises:
            InvalidInput: INVALID_INPUT, the Dockerfile starts from something else, or wants what Modal has not.
            SandboxError: IMAGE_FAILED, with what Modal says; PROVIDER_ERROR.
        """
        lines = [] if source.dockerfile is None else dockerfile_on_base(source.dockerfile)[1]
        with scratch() as folder:
            archive = folder / Path(PLACE).name
            await asyncio.to_thread(write_project, source, archive)
            with self._app.translated("build the image"):
                client, app = await self._app.open()
                try:
                    image = modal.Image.from_id(self._base, client)
                    if lines:
                        image = image.dockerfile_commands(
                            *lines,
                            "USER root",
                            context_dir=source.folder,
                            ignore=source.ignored.patterns,
                            force_build=clean,
                        )
                    image = image.add_local_file(archive, PLACE, copy=True)
                    image = image.dockerfile_commands(f"RUN {UNPACK}", force_build=clean)
                    built = await image.build.aio(app)
                    await built.publish.aio(published(image_id), client=client)
                except wrong.RemoteError as error:
                    raise SandboxError(
                        f"Modal could not build the image of {source.path}: {str(error)[-1500:]}; mend what it says, "
                        "and create the image again",
                        code="IMAGE_FAILED",
                    ) from None
                except wrong.InvalidError as error:
                    raise InvalidInput(
                        f"{source.path} cannot be built at Modal: {error}; mend what it says, or make the image with "
                        "--provider docker"
                    ) from None
        return published(image_id)

    async def clear(self, image_id: str) -> None:
        """Remove an image; see ``ImageMaker``."""
        client, _ = await self._app.open()
        with self._app.translated("remove an image"), suppress(wrong.NotFoundError):
            delete = experimental.image_delete.aio  # pyright: ignore[reportFunctionMemberAccess]
            await delete(await self._id(published(image_id)), client=client)

    async def exists(self, provider_id: str) -> bool:
        """Whether Modal has an image of this name; see ``ImageMaker``."""
        client, app = await self._app.open()
        with self._app.translated("look for an image"):
            try:
                # a name may outlive its image
                await modal.Image.from_id(await self._id(provider_id), client).build.aio(app)
            except wrong.NotFoundError:
                return False
        return True

    async def _id(self, name: str) -> str:
        client, app = await self._app.open()
        return (await modal.Image.from_name(name, client=client).build.aio(app)).object_id
