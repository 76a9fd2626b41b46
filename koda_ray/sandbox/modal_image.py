"""Builds Modal's image of sandboxes from the same Dockerfile and files as everybody's, and prints its id.

koda image build --provider modal [--base IMAGE] [--slim]
"""

from __future__ import annotations

from pathlib import Path

from koda_ray.config import Settings
from koda_ray.errors import Missing
from koda_ray.sandbox.image_context import ImageContext

try:
    import modal
except ImportError:
    raise Missing("an image at Modal needs Modal's package: pip install 'koda-ray[modal]'") from None

from koda_ray.sandbox.modal_app import ModalApp

__all__ = ["BASE", "build_image", "image_in"]

BASE = "debian:trixie-slim"
"""What Modal pulls."""


def image_in(folder: Path, *, base: str = BASE) -> modal.Image:
    """Describe the image of a folder that ``ImageContext.folder`` has written.

    Its last user is root, who lets go of that for every command of a project; Modal's own programs run as that one too.
    """
    image = modal.Image.from_dockerfile(
        folder / "Dockerfile", context_dir=folder, build_args={"BASE_IMAGE": base}, ignore=()
    )
    return image.dockerfile_commands("USER root")


async def build_image(settings: Settings, context: ImageContext, *, base: str = BASE) -> str:
    """Have Modal build the image.

    Returns:
        Its id, for MODAL_IMAGE.

    Raises:
        Missing: MISSING, there is no token.
        SandboxError: PROVIDER_ERROR, Modal refused, or the build failed.
    """
    at = ModalApp.of(settings, why="an image at Modal needs")
    with context.folder() as folder, at.translated("build the image"):
        _, app = await at.open()
        built = await image_in(folder, base=base).build.aio(app)
        return built.object_id
