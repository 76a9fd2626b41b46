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

from koda_ray.sandbox.modal import translated

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
    if settings.modal_token_id is None or settings.modal_token_secret is None:
        raise Missing("an image at Modal needs MODAL_TOKEN_ID and MODAL_TOKEN_SECRET; `modal token new` makes one")
    token = settings.modal_token_id.get_secret_value(), settings.modal_token_secret.get_secret_value()
    with context.folder() as folder, translated("build the image", sandbox_id="", secrets=token):
        client = await modal.Client.from_credentials.aio(*token)
        app = await modal.App.lookup.aio(settings.modal_app, client=client, create_if_missing=True)
        built = await image_in(folder, base=base).build.aio(app)
        return built.object_id
