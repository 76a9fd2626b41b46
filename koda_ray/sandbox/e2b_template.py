"""Builds E2B's template from the same Dockerfile and files as the image of Docker sandboxes.

E2B builds it in its own cloud, from an image of Debian that it pulls. Files are uploaded by the hash of what is in
them, and only those that it does not have yet.

    koda image build --provider e2b [--base IMAGE] [--slim]
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from pathlib import Path

from koda_ray.config import Settings
from koda_ray.errors import Missing, SandboxError
from koda_ray.sandbox.image_context import ImageContext

try:
    import e2b
    from e2b.template.main import TemplateBuilder
except ImportError:
    raise Missing("a template of E2B needs E2B's package: pip install 'koda-ray[e2b]'") from None

from koda_ray.sandbox.e2b_cloud import E2BCloud

__all__ = ["BASE", "build", "build_template", "template_in"]

BASE = "debian:trixie-slim"
"""What E2B pulls: it reaches image registries, whoever asks for the build may not."""

_CPUS = 2
_WORDS_KEPT = 5
_ARGUMENT = "${BASE_IMAGE}"


def template_in(folder: Path, *, base: str = BASE) -> TemplateBuilder:
    """Read the Dockerfile of a folder as a template, with the folder's files.

    Args:
        folder: As ``ImageContext.folder`` writes it.
        base: The image that it starts from; E2B knows no build arguments, so it is put in their place.
    """
    text = (folder / "Dockerfile").read_text().replace(_ARGUMENT, base)
    return e2b.AsyncTemplate(file_context_path=folder).from_dockerfile(text)


async def build_template(
    settings: Settings,
    context: ImageContext,
    *,
    base: str = BASE,
    tell: Callable[[str], object] = lambda line: None,
) -> str:
    """Have E2B build the template that settings name.

    Args:
        settings: E2B_API_KEY, E2B_TEMPLATE, the cluster's addresses, and how much memory (SANDBOX_MEMORY_MB).
        context: What goes in.
        base: The image that it starts from.
        tell: Hears what E2B says meanwhile, line by line.

    Returns:
        E2B's id of the template.

    Raises:
        Missing: MISSING, there is no key.
        SandboxError: IMAGE_FAILED, the build failed, with what it said; PROVIDER_ERROR, E2B refused.
    """
    _cloud(settings)  # before a folder is written
    with context.folder() as folder:
        return await build(settings, template_in(folder, base=base), name=settings.e2b_template, tell=tell)


async def build(
    settings: Settings,
    template: TemplateBuilder,
    *,
    name: str,
    clean: bool = False,
    tell: Callable[[str], object] = lambda line: None,
) -> str:
    """Have E2B build a template under a name, and return its id; as `build_template`.

    Args:
        settings: As `build_template`.
        template: What to build; the files that it copies must be there until this is over.
        name: What it is called in the team.
        clean: Whether nothing of an earlier build is used again.
        tell: Hears what E2B says meanwhile, line by line.
    """
    cloud = _cloud(settings)
    said: deque[str] = deque(maxlen=_WORDS_KEPT)

    def hear(entry: e2b.LogEntry) -> None:
        said.append(entry.message.rstrip())
        tell(entry.message)

    with cloud.translated("build the template"):
        try:
            built = await e2b.AsyncTemplate.build(
                template,
                name,
                cpu_count=_CPUS,
                memory_mb=settings.sandbox_memory_mb,
                min_free_disk_mb=settings.sandbox_disk_mb,
                skip_cache=clean,
                on_build_logs=hear,
                **cloud.params,
            )
        except e2b.BuildException as error:
            words = f"{error}; it said last: {' | '.join(said) or 'nothing'}".replace(cloud.api_key, "***")
            raise SandboxError(
                f"E2B could not build the template {name!r}: {words}; mend what it says, and build it again",
                code="IMAGE_FAILED",
            ) from None
    return built.template_id


def _cloud(settings: Settings) -> E2BCloud:
    return E2BCloud.of(settings, why="a template of E2B needs")
