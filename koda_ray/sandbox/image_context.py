"""What goes into the image of sandboxes: the files that its Dockerfile copies, as an archive or in a folder.

    Dockerfile            sandbox_image/Dockerfile
    wanted-packages.txt   the Debian packages that must be in it, by name
    koda/                 becomes /opt/koda
      agent/              the modules of a container's first process
      bin/, scripts.cjs   ``bun`` and ``npm`` as a project finds them
      template/           the project that every sandbox starts as
      node_modules/       its packages, as its lock says by hash
      tools/              ``bun`` itself, by hash as well

All of it belongs to root and has the same time, so the same context gives the same layers.
"""

from __future__ import annotations

import hashlib
import io
import os
import platform
import shutil
import tarfile
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import IO

from koda_ray.config import SANDBOX_IMAGE_FOLDER, Settings
from koda_ray.errors import Missing, SandboxError, TemplateNotFound
from koda_ray.sandbox.programs import run_program
from koda_ray.sandbox.scratch import scratch
from koda_ray.sandbox.shipped import program

__all__ = ["SLIM_PACKAGES", "ImageContext", "agent_digest", "agent_files", "base_packages", "installed_tools"]

_FOLDER = SANDBOX_IMAGE_FOLDER
_GUEST = Path(__file__).parent / "guest"
_START = "from koda_ray.sandbox.first_process import main\n\nmain()\n"
_NOT_COPIED = frozenset({"node_modules", "dist", ".vite", ".git"})
_INSTALL_TIMEOUT_S = 600
_MACHINES = {"x86_64": "x64", "aarch64": "aarch64"}

SLIM_PACKAGES = ("iproute2", "nodejs", "python3", "tini", "tmux")
"""What a sandbox needs to work at all: without Chromium, FFmpeg and fonts, for tests and for who takes no pictures."""


@lru_cache(maxsize=1)
def base_packages() -> tuple[str, ...]:
    """Return what the image holds of Debian, besides the smallest there is: ``sandbox_image/debian-packages.txt``."""
    return tuple((_FOLDER / "debian-packages.txt").read_text().split())


@lru_cache(maxsize=1)
def agent_digest() -> str:
    """Tell the modules that this koda_ray puts into an image from any others."""
    digest = hashlib.sha256()
    for name, data in agent_files().items():
        digest.update(f"{name}\0{len(data)}\0".encode() + data)
    return digest.hexdigest()[:32]


def agent_files() -> dict[str, bytes]:
    """Return the program of a container's first process, by its files' paths."""
    return dict(sorted(program("koda_ray.sandbox.first_process", _START).items()))


@dataclass(frozen=True, kw_only=True)
class ImageContext:
    """What one image is made of.

    Args:
        template: The project that every sandbox starts as.
        node_modules: The template's installed packages.
        tools: A folder of programs that are no Debian packages; none when None.
        packages: The Debian packages that must be in it.
    """

    template: Path
    node_modules: Path
    tools: Path | None = None
    packages: Sequence[str] = field(default_factory=base_packages)

    @classmethod
    @contextmanager
    def of(cls, settings: Settings, *, slim: bool = False) -> Generator[ImageContext]:
        """Make the context that settings describe; bun is installed for the time of the block, unless it is slim."""
        template, packages = settings.template_path, settings.node_modules_path
        if slim:
            yield cls(template=template, node_modules=packages, packages=SLIM_PACKAGES)
            return
        with installed_tools() as tools:
            yield cls(template=template, node_modules=packages, tools=tools)

    @contextmanager
    def archive(self) -> Generator[IO[bytes]]:
        """Write it as a tar archive, and forget that after the block.

        Raises:
            TemplateNotFound: TEMPLATE_NOT_FOUND.
            SandboxError: PROVIDER_ERROR, a file of it cannot be read, or there is no room.
        """
        for path in (self.template / "package.json", self.node_modules):
            if not path.exists():
                raise TemplateNotFound(
                    f"{path} is not there; run `./koda setup`, or name another template (KODA_TEMPLATE_PATH)"
                )
        with tempfile.TemporaryFile(prefix="koda-image-") as file:
            try:
                with tarfile.open(fileobj=file, mode="w") as archive:
                    self._write(archive)
            except OSError as error:
                raise SandboxError(
                    f"what goes into the image could not be packed: {error}; if something changes in {self.template} "
                    f"or {self.node_modules}, try again when that is over"
                ) from error
            file.seek(0)
            yield file

    @contextmanager
    def folder(self) -> Generator[Path]:
        """Write it into a folder, for builders that take no archive, and remove that after the block."""
        with scratch() as folder, self.archive() as file:
            with tarfile.open(fileobj=file) as archive:
                archive.extractall(folder, filter="tar")
            yield folder

    # inside

    def _write(self, archive: tarfile.TarFile) -> None:
        archive.add(_FOLDER / "Dockerfile", "Dockerfile", filter=_plain)
        _add(archive, "wanted-packages.txt", "".join(f"{name}\n" for name in self.packages).encode())
        archive.add(_GUEST / "bin", "koda/bin", filter=_plain)
        archive.add(_GUEST / "scripts.cjs", "koda/scripts.cjs", filter=_plain)
        archive.add(self.node_modules, "koda/node_modules", filter=_plain)
        for path in sorted(self.template.iterdir()):
            if path.name not in _NOT_COPIED:
                archive.add(path, f"koda/template/{path.name}", filter=_plain)
        if self.tools is not None:
            archive.add(self.tools, "koda/tools", filter=_plain)
        else:  # copied by name, so it has to be there
            nothing = tarfile.TarInfo("koda/tools")
            nothing.type, nothing.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(nothing)
        for name, data in agent_files().items():
            _add(archive, f"koda/agent/{name}", data)


@contextmanager
def installed_tools() -> Generator[Path]:
    """Install what ``sandbox_image/tools`` locks by hash, for this machine's processor, for the time of the block.

    Raises:
        Missing: MISSING, there is no npm, or no bun for this processor.
        SandboxError: PROVIDER_ERROR, npm could not install it; with its last lines.
    """
    npm, machine = shutil.which("npm"), _MACHINES.get(platform.machine())
    if npm is None:
        raise Missing("npm is not on PATH, which fetches bun for the image; run `./koda setup`, or build it --slim")
    if machine is None:
        raise Missing(f"bun is not locked for {platform.machine()}; build the image --slim, without it")
    with scratch() as folder:
        for path in ("package.json", "package-lock.json"):
            shutil.copyfile(_FOLDER / "tools" / path, folder / path)
        line = [npm, "ci", "--include=optional", "--ignore-scripts", "--no-audit", "--no-fund"]
        way_out = "see that npm's registry can be reached and try again, or build the image --slim, without bun"
        run_program(line, cwd=folder, timeout_s=_INSTALL_TIMEOUT_S, way_out=way_out)
        bun = folder / "node_modules" / "@oven" / f"bun-linux-{machine}" / "bin" / "bun"
        if not bun.is_file():
            raise SandboxError("npm installed bun for the image without its program; build the image --slim")
        tools = folder / "tools"
        tools.mkdir()
        bun.rename(tools / "bun")
        os.chmod(tools / "bun", 0o755)
        yield tools


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    archive.addfile(info, io.BytesIO(data))


def _plain(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = info.mtime = 0
    info.uname = info.gname = "root"
    info.mode = 0o755 if info.isdir() or info.mode & 0o100 else 0o644
    return info
