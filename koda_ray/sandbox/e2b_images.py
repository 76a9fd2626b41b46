"""Images of people's own sandboxes at E2B: templates, each built from the one that E2B_TEMPLATE names.

A Dockerfile comes first, as a template of its own on that one; then the folder becomes the project. A template's name
holds the image's id, so whatever a killed build left is found by it.
"""

from __future__ import annotations

import asyncio
import re
import sys
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from koda_ray.cancellation import finish
from koda_ray.errors import InvalidInput, KodaError
from koda_ray.sandbox.e2b_cloud import E2BCloud
from koda_ray.sandbox.e2b_template import build
from koda_ray.sandbox.scratch import scratch
from koda_ray.sandbox.sent_project import PLACE, UNPACK, dockerfile_on_base, write_project

import e2b  # isort: skip - `e2b_cloud` says what is missing where it is not installed

from koda_ray.sandbox.e2b_errors import template_not_found

if TYPE_CHECKING:
    from e2b.template.main import TemplateBuilder

    from koda_ray.config import Settings
    from koda_ray.sandbox.images import Source

__all__ = ["E2BImages"]

_BASE = "-base"


class E2BImages:
    """Templates at E2B.

    Args:
        settings: The key, the cluster's addresses, the template that all start from, and how large a machine is.

    Raises:
        Missing: MISSING, there is no key.
    """

    builds_away = True

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._cloud = E2BCloud.of(settings, why="images at E2B need")

    async def basis(self) -> str:
        """Return the template that all start from; see ``ImageMaker``."""
        return self._settings.e2b_template

    async def make(self, image_id: str, source: Source, *, clean: bool) -> str:
        """Have E2B build it; see ``ImageMaker``.

        Raises:
            InvalidInput: INVALID_INPUT, the Dockerfile is none that E2B builds, or starts from something else.
            TemplateNotFound: TEMPLATE_NOT_FOUND, there is none that E2B_TEMPLATE names.
            SandboxError: IMAGE_FAILED, with the build's last lines; PROVIDER_ERROR.
        """
        name, base = _name(image_id), self._settings.e2b_template
        recipe = None if source.dockerfile is None else await asyncio.to_thread(_of_dockerfile, source, base)
        if not await self.exists(base):
            raise template_not_found(base, "E2B does not know it, and images are made of it")
        try:
            if recipe is not None:
                base = f"{name}{_BASE}"
                try:
                    await build(self._settings, recipe, name=base, clean=clean)
                except ValueError as error:  # the SDK's word for a file that is not in the folder
                    raise InvalidInput(
                        f"{source.dockerfile} cannot be built at E2B: {error}; mend that line, or make the image with "
                        "--provider docker"
                    ) from None
            with scratch() as folder:
                archive = folder / Path(PLACE).name
                await asyncio.to_thread(write_project, source, archive)
                project = e2b.AsyncTemplate(file_context_path=folder).from_template(base).set_user("root")
                project.copy(archive.name, PLACE, user="root").run_cmd(UNPACK, user="root").set_user("user")
                await build(self._settings, project, name=name, clean=clean)
        except BaseException:
            with suppress(KodaError):
                await finish(self.clear(image_id))
            raise
        return name

    async def clear(self, image_id: str) -> None:
        """Remove a template, and what its Dockerfile built; see ``ImageMaker``."""
        with self._cloud.translated("remove a template"):
            for name in (_name(image_id), f"{_name(image_id)}{_BASE}"):
                await e2b.AsyncSandbox.delete_snapshot(name, **self._cloud.params)  # E2B's word for any template

    async def exists(self, provider_id: str) -> bool:
        """Whether E2B has a template of this name; see ``ImageMaker``."""
        with self._cloud.translated("look for a template"):
            return await e2b.AsyncTemplate.exists(provider_id, **self._cloud.params)


def _name(image_id: str) -> str:
    return f"koda-{image_id.replace('_', '-')}"


def _of_dockerfile(source: Source, base: str) -> TemplateBuilder:
    assert source.dockerfile is not None
    text, _ = dockerfile_on_base(source.dockerfile)
    template = e2b.AsyncTemplate(file_context_path=source.folder)
    try:
        with redirect_stdout(sys.stderr):  # where it says which instructions it leaves out
            parsed = template.from_dockerfile(text)
    except (ValueError, e2b.SandboxException) as error:
        raise InvalidInput(
            f"{source.dockerfile} cannot be built at E2B: {error}; change it, or make the image with --provider docker"
        ) from None
    for line in e2b.AsyncTemplate.to_dockerfile(parsed).splitlines():
        # the SDK, which reads files on this machine, takes no path for one that leads out where "**" stands for nothing
        if line.startswith("COPY ") and ".." in re.split(r"[\s/]", line.replace("\\", "")):
            raise InvalidInput(
                f"{source.dockerfile} cannot be built at E2B: {line[:200]!r} goes up by '..'; name what it copies from "
                "the folder's root"
            )
    return template.from_template(base)
