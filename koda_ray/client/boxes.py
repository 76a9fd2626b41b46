"""A person's own images and sandboxes over HTTP: made, listed, extended, ended; their files, commands and projects."""

from __future__ import annotations

import asyncio
import io
import os
import stat
import zipfile
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from koda_ray import errors
from koda_ray.client.transport import Transport, escaped_path, parse
from koda_ray.wire import (
    BuildView,
    CommandOutput,
    CreateSandbox,
    ExtendSandbox,
    FileChanges,
    ImageList,
    ImageView,
    PreviewLink,
    RunCommand,
    SandboxFiles,
    SandboxList,
    SandboxView,
    TakePicture,
)

__all__ = ["OwnSandboxes", "sandbox_path"]

ProviderName = Literal["local", "docker", "e2b", "modal"]
_MORE_S = 30.0
"""How much longer than a command may take its answer is waited for, in seconds."""
_BUILD_S = 900.0


class OwnSandboxes(Transport):
    """The part of the client that has to do with images and sandboxes of your own."""

    # images

    async def create_image(
        self, path: Path, *, name: str | None = None, clean: bool = False, provider: ProviderName | None = None
    ) -> ImageView:
        """Make an image of a folder, dependencies included; the same folder is the same image.

        Args:
            path: The folder, or a zip of one. What a .dockerignore in it names stays out.
            name: What to call it; else the folder's name.
            clean: Whether it is made anew, using nothing of an earlier build.
            provider: Where; else where the server makes them.

        Raises:
            InvalidInput: It cannot be read, or is no image.
            QuotaExceeded: You have as many images as you may.
            SandboxError: It could not be built (IMAGE_FAILED), with the build's last lines.
        """
        found, data = await asyncio.to_thread(_packed, path)
        params = {"name": name or found, **({"clean": "true"} if clean else {})}
        params |= {"provider": provider} if provider else {}
        sent = await self._send("POST", "/v1/images", params=params, content=data, timeout_s=_BUILD_S)
        return parse(ImageView, sent)

    async def images(self) -> ImageList:
        """List your images, oldest first."""
        return await self._get("/v1/images", ImageList)

    async def remove_image(self, image: str, *, forget: bool = False) -> None:
        """Remove an image by its id or name; with ``forget`` also one in a place that is no more. Raises NotFound."""
        await self._end(f"/v1/images/{quote(image, safe='')}", forget=forget)

    # sandboxes

    async def create_sandbox(
        self,
        image: str | None = None,
        *,
        network: bool = False,
        provider: ProviderName | None = None,
        lifetime_s: float | None = None,
    ) -> SandboxView:
        """Make a sandbox. Asked for once: where the answer is lost, `sandboxes` says whether it was made.

        Args:
            image: An image's id or name; else the animation template.
            network: Whether its processes may reach the hosts that the server allows.
            provider: Where; else where its image is, or where the server makes them.
            lifetime_s: When it ends if not extended, in seconds; else in a day.

        Raises:
            NotFound: There is no such image.
            Conflict: The image is not finished, or elsewhere.
            InvalidInput: No such provider or length of time, or the image is another provider's.
            QuotaExceeded: You have as many as you may.
        """
        body = CreateSandbox.model_construct(image=image, network=network, provider=provider, lifetime_s=lifetime_s)
        return await self._post("/v1/sandboxes", body, SandboxView, attempts=1, timeout_s=_BUILD_S)

    async def sandboxes(self, *, everything: bool = False) -> SandboxList:
        """List your sandboxes, oldest first; with ``everything`` those that are over, too."""
        return await self._get("/v1/sandboxes", SandboxList, params={"all": "true"} if everything else None)

    async def sandbox(self, sandbox_id: str) -> SandboxView:
        """Read a sandbox, also one that is over. Raises NotFound."""
        return await self._get(sandbox_path(sandbox_id), SandboxView)

    async def extend_sandbox(self, sandbox_id: str, lifetime_s: float) -> SandboxView:
        """Have a sandbox live for at least so many seconds from now on. Raises NotFound and InvalidInput."""
        body = ExtendSandbox.model_construct(lifetime_s=lifetime_s)
        return await self._post(f"{sandbox_path(sandbox_id)}/extend", body, SandboxView)

    async def terminate_sandbox(self, sandbox_id: str, *, forget: bool = False) -> None:
        """End a sandbox with its processes and files; ``forget`` is as for images. May be asked for again."""
        await self._end(sandbox_path(sandbox_id), forget=forget)

    async def open_port(self, sandbox_id: str, port: int) -> PreviewLink:
        """Get the address of what a process serves on a port inside, good for an hour.

        Raises:
            NotFound: There is no such sandbox.
            KodaError: PORT_UNAVAILABLE, nobody answers there, or its provider does not lead there.
        """
        return await self._post(f"{sandbox_path(sandbox_id)}/ports/{port}", None, PreviewLink)

    async def open_desktop(self, sandbox_id: str) -> PreviewLink:
        """Get the address of the desktop that its template streams; PORT_UNAVAILABLE where it streams none."""
        return await self._post(f"{sandbox_path(sandbox_id)}/desktop", None, PreviewLink)

    async def watch_sandbox(self, sandbox_id: str, path: str = ".") -> AsyncGenerator[FileChanges]:
        """Yield which files change, until the sandbox or the server ends; list the files anew when coming back.

        The first has no changes: from there on nothing is missed. Raises NotFound.
        """
        async with aclosing(self._told(f"{sandbox_path(sandbox_id)}/changes", params={"path": path})) as told:
            async for _, _, data in told:
                yield FileChanges.model_validate_json(data, extra="ignore")

    # files and commands

    async def sandbox_files(self, sandbox_id: str, path: str = ".", *, recursive: bool = False) -> SandboxFiles:
        """List what is in a folder of a sandbox, or below it. Raises NotFound and InvalidPath."""
        params = {"path": path, **({"recursive": "true"} if recursive else {})}
        return await self._get(f"{sandbox_path(sandbox_id)}/files", SandboxFiles, params=params)

    async def read_sandbox_file(self, sandbox_id: str, path: str) -> bytes:
        """Read a file of a sandbox. Raises NotFound and InvalidPath."""
        return (await self._send("GET", f"{sandbox_path(sandbox_id)}/files/{escaped_path(path)}")).content

    async def write_sandbox_file(self, sandbox_id: str, path: str, data: bytes) -> None:
        """Write a file of a sandbox, and make the folders above it. Raises NotFound and InvalidPath."""
        await self._send("PUT", f"{sandbox_path(sandbox_id)}/files/{escaped_path(path)}", content=data)

    async def remove_sandbox_file(self, sandbox_id: str, path: str) -> None:
        """Remove a file, or a folder with all in it; what is not there is no error. Raises InvalidPath."""
        await self._send("DELETE", f"{sandbox_path(sandbox_id)}/files/{escaped_path(path)}")

    async def run_command(
        self, sandbox_id: str, command: str, *, cwd: str = ".", timeout_s: float = 30.0
    ) -> CommandOutput:
        """Run a line for a shell to its end, once. What it ends with is no error.

        Args:
            sandbox_id: Where.
            command: The line.
            cwd: A folder of the project.
            timeout_s: When it is ended with all that it started, in seconds; an hour at most.

        Raises:
            NotFound: There is no such sandbox or folder.
            CommandTimeout: TIMEOUT.
            CommandBlocked: COMMAND_BLOCKED.
            QuotaExceeded: QUOTA_EXCEEDED, it passed a limit.
        """
        body = RunCommand.model_construct(command=command, cwd=cwd, timeout_s=timeout_s)
        path, wait_s = f"{sandbox_path(sandbox_id)}/commands", timeout_s + _MORE_S
        return await self._post(path, body, CommandOutput, attempts=1, timeout_s=wait_s)

    # the project as a whole

    async def snapshot_sandbox(self, sandbox_id: str, target: Path) -> int:
        """Save all files of a sandbox as a zip, which replaces the file; return its size in bytes. Raises NotFound."""
        return await self._fetch(f"{sandbox_path(sandbox_id)}/snapshot", target)

    async def restore_sandbox(self, sandbox_id: str, source: Path) -> None:
        """Make a sandbox's files those of a zip; what no snapshot holds stays.

        Raises:
            NotFound: There is no such sandbox.
            InvalidInput: The file cannot be read, or is no such zip.
        """
        data = await asyncio.to_thread(_read, source)
        await self._send("PUT", f"{sandbox_path(sandbox_id)}/snapshot", content=data)

    async def build_sandbox(self, sandbox_id: str, *, types: bool = False) -> BuildView:
        """Build a sandbox's project with Vite, after its types where asked; what is wrong is in ``problems``."""
        params = {"types": "true"} if types else None
        sent = await self._send("POST", f"{sandbox_path(sandbox_id)}/build", params=params, timeout_s=_BUILD_S)
        return parse(BuildView, sent)

    async def export_bundle(self, sandbox_id: str, target: Path) -> int:
        """Save what the last build left as a zip that `render_page` takes; return its size in bytes."""
        return await self._fetch(f"{sandbox_path(sandbox_id)}/bundle", target)

    async def picture_sandbox(
        self, sandbox_id: str, at_s: float = 0.0, *, width_px: int = 1920, height_px: int = 1080
    ) -> bytes:
        """Take a picture of a sandbox's page at a time, as a PNG: the frame that a render would show."""
        asked = TakePicture.model_construct(at_s=at_s, width_px=width_px, height_px=height_px)
        sent = asked.model_dump(mode="json")
        path = f"{sandbox_path(sandbox_id)}/screenshot"
        return (await self._send("POST", path, json=sent, timeout_s=_BUILD_S)).content

    async def preview_sandbox(self, sandbox_id: str, *, edit: bool = False) -> PreviewLink:
        """Start a sandbox's dev server where it does not run, and get its page's address, good for an hour.

        It is for looking, or with ``edit`` for writing, too.
        """
        query = "?edit=true" if edit else ""
        return await self._post(f"{sandbox_path(sandbox_id)}/preview{query}", None, PreviewLink)

    async def _end(self, path: str, *, forget: bool) -> None:
        try:
            await self._send("DELETE", path, params={"forget": "true"} if forget else None)
        except errors.NotFound as error:
            if "attempt" not in error.context:  # else the try before did it, and only its answer was lost
                raise


def sandbox_path(sandbox_id: str) -> str:
    """Return a sandbox's address."""
    return f"/v1/sandboxes/{quote(sandbox_id, safe='')}"


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise errors.InvalidInput(f"cannot read {path}: {error.strerror or error}") from error


def _packed(path: Path) -> tuple[str, bytes]:
    """Return a folder's or a zip's name, and the zip's bytes, or the folder as one, with its modes and links."""
    name = path.resolve().name
    if not path.is_dir():
        return name.removesuffix(".zip"), _read(path)
    buffer = io.BytesIO()
    try:
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            for found in sorted(path.rglob("*")):
                inside, mode = found.relative_to(path).as_posix(), found.lstat().st_mode
                if stat.S_ISDIR(mode):
                    entry, data = zipfile.ZipInfo(f"{inside}/"), b""
                elif stat.S_ISREG(mode) or stat.S_ISLNK(mode):
                    data = os.fsencode(os.readlink(found)) if stat.S_ISLNK(mode) else found.read_bytes()
                    entry = zipfile.ZipInfo(inside)
                else:
                    continue
                entry.external_attr = mode << 16
                archive.writestr(entry, data, zipfile.ZIP_DEFLATED)
    except OSError as error:
        raise errors.InvalidInput(f"cannot read {path}: {error.strerror or error}") from error
    return name, buffer.getvalue()
