"""Builds the image of sandboxes: a Debian, the template with its packages, and the first process's modules.

Nothing is downloaded by the build itself where its base has every Debian package that it wants. Where no image
registry can be reached, ``make_base`` makes such a base by ``debootstrap``; on a plain Debian
(``--base debian:trixie-slim``) the build installs what is missing. The versions of its packages are written down in
the image (``/opt/koda/debian-packages.txt``), npm's are those of the locks, by hash; nothing in it is from PyPI.

An image and its provider belong together: a label holds the digest of the modules in it, and the provider takes no
other.

    koda image build [--slim] [--clean] [--base IMAGE] [--tag NAME]
"""

from __future__ import annotations

import ast
import asyncio
import hashlib
import inspect
import json
import os
import shutil
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

from koda_ray.config import Settings
from koda_ray.errors import Missing, SandboxError, TemplateNotFound
from koda_ray.sandbox.engine import Engine, Image
from koda_ray.sandbox.image_context import SLIM_PACKAGES, ImageContext, agent_digest, base_packages
from koda_ray.sandbox.programs import run_program
from koda_ray.sandbox.scratch import scratch
from koda_ray.types import now

__all__ = [
    "AGENT",
    "AGENT_LABEL",
    "PACKAGES",
    "SLIM_PACKAGES",
    "SUITE",
    "TEMPLATE",
    "ImageContext",
    "agent_digest",
    "base_packages",
    "build_image",
    "checked_image",
    "import_base",
    "make_base",
    "make_image",
    "own_base",
]

AGENT = "/opt/koda/agent"
"""Where the first process's modules lie in the image."""

TEMPLATE = "/opt/koda/template"
PACKAGES = "/opt/koda/node_modules"
AGENT_LABEL = "koda.agent"

SUITE = "trixie"
"""The first Debian with a node that Vite 8 takes."""

_BASE_TIMEOUT_S = 1800
_UP_TO_DATE = timedelta(days=30)
_DEVICES = {"null": (1, 3), "zero": (1, 5), "random": (1, 8), "urandom": (1, 9)}
_FROM_HERE = ("etc/resolv.conf", "etc/hosts")
_EMPTIED = ("var/cache/apt", "var/lib/apt/lists", "var/log", "usr/share/doc", "usr/share/man", "usr/share/locale")


def make_base(
    target: Path, *, suite: str = SUITE, mirror: str | None = None, packages: Sequence[str] | None = None
) -> None:
    """Make a Debian's root as a tar archive by ``debootstrap``; takes root, and a minute or two.

    Args:
        target: The archive.
        suite: Debian's release.
        mirror: Where its packages come from; debootstrap's default when None.
        packages: What it holds besides the smallest Debian; what the whole image wants when None.

    Raises:
        Missing: MISSING, debootstrap is not installed.
        SandboxError: PROVIDER_ERROR, with its last lines.
    """
    if shutil.which("debootstrap") is None:
        raise Missing("debootstrap is not installed: apt-get install debootstrap, or give --base an image of Debian")
    with scratch() as folder:
        root = folder / "root"
        line = ["debootstrap", "--variant=minbase", suite, str(root)]
        _run(line if mirror is None else [*line, mirror])
        # debootstrap's own choice of dependencies knows no alternatives: apt's does, inside
        with _entered(root):
            enter = ["chroot", str(root), "env", "DEBIAN_FRONTEND=noninteractive", "apt-get"]
            _run([*enter, "update"])
            _run([*enter, "install", "-y", "--no-install-recommends", *(packages or base_packages())])
        for name in _EMPTIED:
            shutil.rmtree(root / name, ignore_errors=True)
            (root / name).mkdir(parents=True)
        target.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)  # two may make it at once
        os.close(descriptor)
        partial = Path(name)
        try:
            partial.chmod(0o644)
            _run(["tar", "-C", str(root), "--numeric-owner", "--sort=name", "--exclude=./dev/*", "-cf", name, "."])
            partial.rename(target)
        finally:
            partial.unlink(missing_ok=True)


@contextmanager
def _entered(root: Path) -> Generator[None]:
    """Make a root one that programs can run in: a few devices, names that are looked up, and no service that starts."""
    for name, (major, minor) in _DEVICES.items():
        with suppress(FileExistsError):
            os.mknod(root / "dev" / name, 0o666 | 0o020000, os.makedev(major, minor))
    refuse = root / "usr/sbin/policy-rc.d"
    refuse.write_text("#!/bin/sh\nexit 101\n")
    refuse.chmod(0o755)
    for name in _FROM_HERE:
        shutil.copyfile(f"/{name}", root / name)
    _run(["mount", "-t", "proc", "proc", str(root / "proc")])
    try:
        yield
    finally:
        _run(["umount", "--lazy", str(root / "proc")])
        for name in (*_FROM_HERE, "usr/sbin/policy-rc.d"):
            (root / name).unlink()


def import_base(engine: Engine, archive: Path, *, name: str) -> None:
    """Give the engine a root file system as an image; blocks.

    Args:
        engine: The engine.
        archive: As ``make_base`` leaves it.
        name: The image's, with its tag.
    """
    repository, _, tag = name.partition(":")

    def work(api: Any) -> str:
        return str(api.import_image_from_file(str(archive), repository=repository, tag=tag or "latest"))

    said = engine.use(work, doing="import an image")
    if '"error"' in said:
        raise SandboxError(
            f"the Docker engine could not import {archive}: {said[-500:]}; see that its disk has room (docker system "
            "df), and build it again with --clean"
        )


def build_image(
    engine: Engine, context: ImageContext, *, base: str, tag: str, network: bool = False, clean: bool = False
) -> Image:
    """Build the image; blocks.

    The one that had the name before goes, unless something was made of it.

    Args:
        engine: The engine.
        context: What goes in.
        base: The image that it starts from.
        tag: Its name.
        network: Whether the build may fetch what the base lacks of Debian.
        clean: Whether nothing of an earlier build is used again.

    Raises:
        TemplateNotFound: TEMPLATE_NOT_FOUND.
        SandboxError: PROVIDER_ERROR, with the build's last lines.
    """
    with context.archive() as file:
        before = asyncio.run(engine.image(tag))

        def work(api: Any) -> list[dict[str, Any]]:
            said = api.build(
                fileobj=file, custom_context=True, tag=tag, rm=True, forcerm=True, decode=True, nocache=clean,
                network_mode="default" if network else "none",
                buildargs={"BASE_IMAGE": base}, labels={AGENT_LABEL: agent_digest()},
            )  # fmt: skip
            return cast("list[dict[str, Any]]", list(said))

        said = engine.use(work, doing="build an image")
    if any("error" in line for line in said):
        lines = "".join(str(line.get("stream") or line.get("error") or "") for line in said)
        raise SandboxError(
            f"the image {tag!r} could not be built: {lines[-1500:].strip()}; mend what its last lines say, and build "
            "it again, with --clean where an earlier build is in the way"
        )
    image = asyncio.run(engine.image(tag))
    if image is None:
        raise SandboxError(
            f"the engine built the image {tag!r} and does not hold it; somebody removed it meanwhile: build it again"
        )
    _forget(engine, before, image)
    return image


def _forget(engine: Engine, before: Image | None, image: Image) -> None:
    """Remove what had an image's name before, and all that only it is made of; kept where it has another name."""

    def work(api: Any) -> None:
        if before is not None and before.id != image.id and not api.inspect_image(before.id)["RepoTags"]:
            api.remove_image(before.id)

    with suppress(SandboxError):  # a sandbox or an image was made of it
        engine.use(work, doing="remove an image")


async def checked_image(engine: Engine, name: str) -> Image:
    """Look at an image that sandboxes are to start from.

    Raises:
        TemplateNotFound: TEMPLATE_NOT_FOUND, the engine does not hold it, or it is of another version of koda_ray.
    """
    found = await engine.image(name)
    if found is None:
        raise TemplateNotFound(
            f"the engine holds no image {name!r}; build it with `koda image build`, or set "
            "SANDBOX_IMAGE to one that it holds"
        )
    if found.labels.get(AGENT_LABEL) != agent_digest():
        raise TemplateNotFound(
            f"the image {name!r} was built by another version of koda_ray; build it again with `koda image build`"
        )
    return found


def make_image(
    settings: Settings,
    *,
    base: str | None = None,
    tag: str | None = None,
    mirror: str | None = None,
    slim: bool = False,
    clean: bool = False,
) -> Image:
    """Build the image that settings name; blocks.

    Args:
        settings: Name the engine, the image and the template.
        base: An image of Debian; when None, one that is made by debootstrap, once for each engine and what it is made
            of.
        tag: The image's name, when not that of settings.
        mirror: Where debootstrap takes packages from.
        slim: Whether Chromium, FFmpeg, fonts and bun are left out.
        clean: Whether all is made anew, the base too, with Debian's updates.

    Raises:
        TemplateNotFound: TEMPLATE_NOT_FOUND.
        Missing: MISSING, a program that this takes is not installed.
        SandboxError: PROVIDER_ERROR, no engine answers, or the build failed, with its last lines.
    """
    engine = Engine(settings.docker_host)
    try:
        asyncio.run(engine.facts())  # before minutes are spent on a base
        with ImageContext.of(settings, slim=slim) as context:
            start = base or own_base(engine, context.packages, mirror=mirror, clean=clean)
            return build_image(
                engine, context, base=start, tag=tag or settings.sandbox_image, network=base is not None, clean=clean
            )
    finally:
        asyncio.run(engine.close())


def own_base(engine: Engine, packages: Sequence[str], *, mirror: str | None = None, clean: bool = False) -> str:
    """Return the engine's base of these packages; made by debootstrap where it is not there yet, which blocks.

    Its name follows from all that it is made of and how, but for the packages' versions: Debian's updates are in one
    that is made anew.

    Args:
        engine: The engine.
        packages: What it holds besides the smallest Debian.
        mirror: Where they come from; debootstrap's default when None.
        clean: Whether to make it anew though it is there.

    Raises:
        Missing: MISSING, debootstrap, or the rights that it takes.
        SandboxError: PROVIDER_ERROR, it failed or took too long, or its files could not be written here.
    """
    made_of = json.dumps([SUITE, sorted(packages), mirror, _recipe()])
    name = f"koda/base:{SUITE}-{hashlib.sha256(made_of.encode()).hexdigest()[:12]}"
    there = engine.probe(name)
    if there is not None and not clean:
        if (age := now() - there.made_at) > _UP_TO_DATE:
            from koda_ray.logs import get_logger  # imported by the first who has something to say

            get_logger(__name__).warning(
                "the base of sandboxes is old; `koda image build --clean` makes it anew, with Debian's updates",
                base=name,
                days=age.days,
            )
        return name
    if os.geteuid() != 0:
        raise Missing("debootstrap, which makes the base of the image, takes root; run it as root, or give --base")
    try:
        with scratch() as folder:
            archive = folder / "base.tar"
            make_base(archive, mirror=mirror, packages=packages)
            import_base(engine, archive, name=name)
    except OSError as error:
        raise SandboxError(
            f"the base of the image could not be written below {tempfile.gettempdir()}: {error}; make room there, or "
            "set TMPDIR to a folder with more, or give an image of Debian with --base"
        ) from error
    return name


def _recipe() -> str:
    """Tell how a base is made from any other way: by the code that makes it, without its comments."""
    code = "".join(ast.unparse(ast.parse(inspect.getsource(part))) for part in (make_base, _entered))
    return f"{code}{_EMPTIED}{_FROM_HERE}{_DEVICES}"


def _run(line: Sequence[str]) -> None:
    run_program(
        line,
        timeout_s=_BASE_TIMEOUT_S,
        way_out="see that Debian's packages can be fetched (--mirror names another place for them) and try again, or "
        "give an image of Debian with --base",
    )
