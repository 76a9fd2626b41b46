"""Images: what people's own sandboxes start from, made from a folder of theirs, by each provider in its own way.

- **local**: a copy of the folder as it is, packages and all. Nothing is built: what is in it has to run here.
- **docker**: the image of all sandboxes with the folder as the project. Where a ``Dockerfile`` is named or lies in the
  folder, it is built first, on the image of all sandboxes (``ARG BASE_IMAGE``, ``FROM ${BASE_IMAGE}``).
- **e2b**, **modal**: the same, built there: see ``e2b_images`` and ``modal_images``.

What the folder's ``.dockerignore`` names is neither seen by a build nor in the project, at any of them.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import os
import socket
import stat
import tarfile
import tempfile
import threading
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, Protocol, cast

from koda_ray.cancellation import see_through
from koda_ray.errors import InvalidInput, SandboxError
from koda_ray.sandbox.copying import copy_folder
from koda_ray.sandbox.disk import remove_tree
from koda_ray.sandbox.ignored import Entry, Ignored

if TYPE_CHECKING:
    import requests

    from koda_ray.config import Settings
    from koda_ray.sandbox.engine import Engine

__all__ = [
    "MAX_BYTES",
    "MAX_FILES",
    "DockerImages",
    "ImageMaker",
    "LocalImages",
    "Source",
    "check_sent",
    "checked_name",
    "source_at",
]

MAX_BYTES = 8 * 1024**3
MAX_FILES = 500_000
_DOCKERFILE = "Dockerfile"


@dataclass(frozen=True, kw_only=True)
class Source:
    """A folder that becomes an image, but for what its ``.dockerignore`` names.

    ``digest`` changes with anything in it, and with nothing else; ``path`` is what was named.
    """

    path: Path
    folder: Path
    dockerfile: Path | None
    digest: str
    size_bytes: int
    ignored: Ignored = field(default_factory=Ignored)

    def entries(self) -> Iterator[Entry]:
        """Go through what becomes the image, parents first."""
        return self.ignored.entries(self.folder)


class ImageMaker(Protocol):
    """Makes and removes a provider's images.

    Attributes:
        builds_away: Whether what it builds is built in somebody's cloud, with no rights on this machine.
    """

    builds_away: bool

    async def basis(self) -> str:
        """Tell what images are made on, besides their source, from any other: what was made on another is outdated.

        Raises:
            TemplateNotFound: TEMPLATE_NOT_FOUND, it is not there, or of another version of koda_ray.
        """
        ...

    async def make(self, image_id: str, source: Source, *, clean: bool) -> str:
        """Make an image and return what the provider calls it; what a failure leaves, ``clear`` removes.

        Cancelled, it ends once nothing is being made any more.

        Args:
            image_id: Ours, unique.
            source: What it is made from.
            clean: Whether nothing of an earlier build is used again.
        """
        ...

    async def clear(self, image_id: str) -> None:
        """Remove an image, a half-made one too; nothing happens when it is not there."""
        ...

    async def exists(self, provider_id: str) -> bool:
        """Whether an image is there."""
        ...


class LocalImages:
    """Copies of folders below SANDBOX_PATH.

    Args:
        root: Where they lie.
    """

    builds_away = False

    def __init__(self, root: Path) -> None:
        self._root = root.absolute()

    async def basis(self) -> str:
        """Return nothing: a copy is the folder alone, and what works on it is this koda_ray; see ``ImageMaker``."""
        return ""

    async def make(self, image_id: str, source: Source, *, clean: bool) -> str:
        """Copy the folder; see ``ImageMaker``. Nothing is built, so there is nothing to be ``clean`` of."""
        stop = threading.Event()
        making = asyncio.ensure_future(asyncio.to_thread(self._copy, image_id, source, stop))
        try:
            return await asyncio.shield(making)
        except asyncio.CancelledError:
            stop.set()
            with suppress(asyncio.CancelledError):
                await see_through(making)
            raise

    async def clear(self, image_id: str) -> None:
        """Remove a copy; see ``ImageMaker``."""
        for path in self._paths(image_id):
            await asyncio.to_thread(remove_tree, path)

    async def exists(self, provider_id: str) -> bool:
        """Whether a copy is there; see ``ImageMaker``."""
        return await asyncio.to_thread(os.path.isdir, provider_id)

    def _paths(self, image_id: str) -> tuple[Path, Path]:
        """Return where an image lies, and where it lay before it was whole."""
        return self._root / image_id, self._root / f".{image_id}"

    def _copy(self, image_id: str, source: Source, stop: threading.Event) -> str:
        target, partial = self._paths(image_id)
        if self._root.is_relative_to(source.folder.resolve()):
            raise InvalidInput(
                f"{source.folder} holds SANDBOX_PATH itself ({self._root.parents[1]}), so a copy would hold itself; "
                "name a folder further down, or set SANDBOX_PATH elsewhere"
            )
        try:
            self._root.mkdir(parents=True, exist_ok=True, mode=0o700)
            copy_folder(source.folder, partial, ignored=source.ignored, stop=stop)
            partial.rename(target)
        except OSError as error:
            raise SandboxError(
                f"{source.folder} could not be copied: {error}; see that this user may read all of it and that "
                f"SANDBOX_PATH has room for {source.size_bytes >> 20} MB",
                code="IMAGE_FAILED",
            ) from error
        return str(target)


class DockerImages:
    """Images at a Docker engine.

    Args:
        settings: Which engine, and what all sandboxes start from.
    """

    builds_away = False

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    async def basis(self) -> str:
        """Return the id of the image of all sandboxes, in which the first process's modules are; see ``ImageMaker``."""
        from koda_ray.sandbox.engine import Engine
        from koda_ray.sandbox.image import checked_image

        engine = Engine(self._settings.docker_host)
        try:
            return (await checked_image(engine, self._settings.sandbox_image)).id
        finally:
            await engine.close()

    async def make(self, image_id: str, source: Source, *, clean: bool) -> str:
        """Build it; see ``ImageMaker``."""
        tag, stop = _tag(image_id), _Stop()
        making = asyncio.ensure_future(asyncio.to_thread(self._build, tag, source, clean, stop))
        try:
            await asyncio.shield(making)
        except asyncio.CancelledError:
            await asyncio.to_thread(stop)
            with suppress(asyncio.CancelledError):
                await see_through(making)
            raise
        return tag

    async def clear(self, image_id: str) -> None:
        """Remove its tags, and what only those held; see ``ImageMaker``."""
        await asyncio.to_thread(self._remove, _tag(image_id))

    async def exists(self, provider_id: str) -> bool:
        """Whether the engine holds it; see ``ImageMaker``."""
        from koda_ray.sandbox.engine import Engine

        engine = Engine(self._settings.docker_host)
        try:
            return await engine.image(provider_id) is not None
        finally:
            await engine.close()

    def _build(self, tag: str, source: Source, clean: bool, stop: _Stop) -> None:
        from koda_ray.sandbox.engine import Engine

        engine = Engine(self._settings.docker_host)
        try:
            base = self._settings.sandbox_image
            if source.dockerfile is not None:
                base = f"{tag}-base"
                self._build_dockerfile(engine, source, tag=base, clean=clean, stop=stop)
            with tempfile.TemporaryFile(prefix="koda-image-") as context:
                _write_context(context, source, base=base)
                _built(engine, context, _Build(tag=tag, clean=clean), stop=stop)
        finally:
            asyncio.run(engine.close())

    def _build_dockerfile(self, engine: Engine, source: Source, *, tag: str, clean: bool, stop: _Stop) -> None:
        from koda_ray.sandbox.image import AGENT_LABEL

        assert source.dockerfile is not None
        with tempfile.TemporaryFile(prefix="koda-image-") as context:
            with _packing(source.folder), tarfile.open(fileobj=context, mode="w") as archive:
                for entry in source.entries():
                    archive.add(entry.path, entry.name, recursive=False)
                archive.add(source.dockerfile, _DOCKERFILE)
            context.seek(0)
            arguments = {"BASE_IMAGE": self._settings.sandbox_image}
            build = _Build(tag=tag, clean=clean, arguments=arguments, network="default")
            _built(engine, context, build, stop=stop)
        found = asyncio.run(engine.image(tag))
        if found is None or AGENT_LABEL not in found.labels:
            raise InvalidInput(
                f"what {source.dockerfile} builds cannot be a sandbox, because it does not start from the image of all "
                "sandboxes: begin it with the lines `ARG BASE_IMAGE` and `FROM ${BASE_IMAGE}`"
            )

    def _remove(self, tag: str) -> None:
        from koda_ray.sandbox.engine import Engine

        engine = Engine(self._settings.docker_host)
        try:
            for name in (tag, f"{tag}-base"):
                if asyncio.run(engine.image(name)) is not None:
                    engine.use(lambda api, name=name: api.remove_image(name, force=True), doing="remove an image")
        finally:
            asyncio.run(engine.close())


def _tag(image_id: str) -> str:
    return f"koda/image:{image_id.removeprefix('img_')}"


class _Stop:
    """Ends a build that another thread waits for: an engine gives up what its client does not wait for any more."""

    def __init__(self) -> None:
        self.asked = False
        self._answer: requests.Response | None = None
        self._turn = threading.Lock()

    def __call__(self) -> None:
        """End what goes on, and what would come next."""
        with self._turn:
            self.asked = True
            self._hang_up()

    def answered(self, answer: requests.Response, *_: object, **__: object) -> None:
        """Take the engine's answer, from which the build's lines are read."""
        with self._turn:
            self._answer = answer
            if self.asked:
                self._hang_up()

    def _hang_up(self) -> None:
        if self._answer is not None:
            with suppress(OSError), socket.socket(fileno=os.dup(self._answer.raw.fileno())) as connection:
                connection.shutdown(socket.SHUT_RDWR)


def source_at(path: Path, *, builds: bool = True) -> Source:
    """Look at what an image is to be made from; blocks.

    Args:
        path: A folder, or a ``Dockerfile``, whose folder it then is.
        builds: Whether a Dockerfile in it is built; else it is a file like any other.

    Raises:
        InvalidInput: INVALID_INPUT, it is neither, larger than MAX_FILES or MAX_BYTES, or may not be read.
        SandboxError: IMAGE_FAILED, it changed meanwhile, or cannot be read.
    """
    path = path.absolute()
    dockerfile: Path | None = None
    if path.is_file() and _DOCKERFILE in path.name:
        folder, dockerfile = path.parent, path
    elif path.is_dir():
        folder = path
        if builds and (path / _DOCKERFILE).is_file():
            dockerfile = path / _DOCKERFILE
    else:
        raise InvalidInput(
            f"{path} is neither a folder nor a Dockerfile; name the folder that sandboxes shall start as, or a "
            "Dockerfile in it"
        )
    ignored = Ignored.of(folder, dockerfile=dockerfile)
    with _packing(folder):
        try:
            size = _measured(folder, ignored)
            digest = _digest(folder, dockerfile, ignored)
        except PermissionError as error:
            raise InvalidInput(
                f"{error.filename or folder} cannot be read ({error.strerror}): let this user read it, or take it out "
                f"of {folder}"
            ) from error
    return Source(path=path, folder=folder, dockerfile=dockerfile, ignored=ignored, digest=digest, size_bytes=size)


def check_sent(path: Path, *, provider: str) -> None:
    """Refuse a Dockerfile that somebody sent to a machine that would build it itself; blocks.

    Raises:
        InvalidInput: INVALID_INPUT, the folder holds one.
    """
    if (path / _DOCKERFILE).exists():
        raise InvalidInput(
            f"the zip holds a Dockerfile, which the provider {provider!r} does not build for whoever sends it: that "
            "would be with this machine's rights. Send the folder without it, name a provider that builds in its own "
            "cloud (e2b or modal), or have whoever runs the server make the image with `koda image create`"
        )


def checked_name(name: str) -> str:
    """Return what an image may be called.

    Raises:
        InvalidInput: It is too long, or has what no name has.
    """
    if not name.strip() or len(name) > 128 or not name.isprintable() or "/" in name:
        raise InvalidInput(f"{name[:80]!r} cannot name an image; use up to 128 printable characters without '/'")
    return name


def _measured(folder: Path, ignored: Ignored) -> int:
    """Say how large it is, before anything of it is read."""
    size = 0
    for count, entry in enumerate(ignored.entries(folder), 1):
        size += entry.size_bytes
        if size > MAX_BYTES or count > MAX_FILES:
            raise InvalidInput(
                f"{folder} holds more than an image may ({MAX_BYTES >> 30} GB, {MAX_FILES} files): name a folder that "
                "holds only what sandboxes need, or name the rest in its .dockerignore"
            )
    return size


def _digest(folder: Path, dockerfile: Path | None, ignored: Ignored) -> str:
    """Tell a folder's content from any other's: names, modes, bytes and links; neither times nor where it lies."""
    digest = hashlib.sha256()
    if dockerfile is not None:  # it counts even where a build does not see it
        digest.update(hashlib.sha256(dockerfile.read_bytes()).digest())
    for entry in ignored.entries(folder):
        digest.update(f"{entry.name}\0{entry.mode:o}\0".encode("utf-8", "surrogateescape"))
        if stat.S_ISLNK(entry.mode):
            digest.update(hashlib.sha256(os.fsencode(os.readlink(entry.path))).digest())
        elif stat.S_ISREG(entry.mode):
            with entry.path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


@contextmanager
def _packing(folder: Path) -> Generator[None]:
    """Say in our words what of a folder could not be read."""
    try:
        yield
    except OSError as error:
        raise SandboxError(
            f"{folder} could not be packed: {error}; if something changes in it, try again when that is over",
            code="IMAGE_FAILED",
        ) from error


def _write_context(context: IO[bytes], source: Source, *, base: str) -> None:
    """Write what the last step is built from: the folder as the template, its packages where those are looked for."""
    from koda_ray.sandbox.image import PACKAGES, TEMPLATE

    packages = "node_modules"
    lines = [f"FROM {base}", "USER 0:0", f"RUN rm -rf {TEMPLATE} {PACKAGES}", f"COPY project {TEMPLATE}"]
    lines += [f"COPY packages {PACKAGES}", f"RUN chmod -R a+rX {TEMPLATE} {PACKAGES}", "USER 1000:1000"]
    with _packing(source.folder), tarfile.open(fileobj=context, mode="w") as archive:
        for name in ("project", "packages"):
            made = tarfile.TarInfo(name)
            made.type, made.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(made)
        for entry in source.entries():
            first, _, rest = entry.name.partition("/")
            if first != packages:
                archive.add(entry.path, f"project/{entry.name}", recursive=False)
            elif rest:
                archive.add(entry.path, f"packages/{rest}", recursive=False)
        data = "\n".join(lines).encode()
        info = tarfile.TarInfo(_DOCKERFILE)
        info.size = len(data)
        archive.addfile(info, io.BytesIO(data))
    context.seek(0)


@dataclass(frozen=True, kw_only=True)
class _Build:
    """What an engine makes of a folder.

    Args:
        tag: The image's name.
        clean: Whether nothing of an earlier build is used again.
        arguments: What its Dockerfile is given.
        network: Whether its commands have one.
    """

    tag: str
    clean: bool
    arguments: Mapping[str, str] = field(default_factory=dict[str, str])
    network: Literal["none", "default"] = "none"


def _built(engine: Engine, context: IO[bytes], build: _Build, *, stop: _Stop) -> None:
    def work(api: Any) -> list[dict[str, Any]]:
        api.hooks["response"] = [stop.answered]
        try:
            said = api.build(
                fileobj=context, custom_context=True, tag=build.tag, rm=True, forcerm=True, decode=True,
                nocache=build.clean, network_mode=build.network, buildargs=dict(build.arguments),
            )  # fmt: skip
            return cast("list[dict[str, Any]]", list(said))
        except Exception:
            if stop.asked:  # whatever the SDK makes of a connection that ended
                return []
            raise
        finally:
            api.hooks["response"] = []

    said = [] if stop.asked else engine.use(work, doing="build an image")
    if stop.asked:
        raise SandboxError(
            f"the build of {build.tag} was stopped before its end; create the image again", code="IMAGE_FAILED"
        )
    if any("error" in line for line in said):
        lines = "".join(str(line.get("stream") or line.get("error") or "") for line in said)
        raise SandboxError(
            f"the image could not be built: {lines[-1500:].strip()}; mend what its last lines say, and create it again",
            code="IMAGE_FAILED",
        )
