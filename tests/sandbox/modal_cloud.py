"""Modal as its SDK shows it to us: every call must fit the SDK's own signature, and every command runs in a machine.

Modal's protocol is not imitated. What stands in the SDK's place has the methods that the adapter uses, and no others.
"""

from __future__ import annotations

import asyncio
import inspect
import io
import os
import secrets
import signal
import tarfile
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import modal
import modal.experimental
import pytest

from tests.sandbox.e2b_server.built import BuildStep, Failed, build
from tests.sandbox.e2b_server.machine import Machine, TemplateImage

__all__ = ["SECRET", "TOKEN", "Cloud"]

TOKEN, SECRET = "ak-koda-test", "as-koda-test"
_PIECE = 65536
_Sandbox, _App, _Client, _Image = modal.Sandbox, modal.App, modal.Client, modal.Image


class _Call:
    """A method of the SDK: only ``aio`` is for who has an event loop, and its arguments are those of the real one."""

    def __init__(self, real: Any, does: Callable[..., Any], *own: Any) -> None:
        self._real, self._does, self._own = inspect.signature(real), does, own

    def aio(self, *args: Any, **kwargs: Any) -> Any:
        self._real.bind(*self._own, *args, **kwargs)
        return self._does(*args, **kwargs)


class _Stream:
    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while data := await self._reader.read(_PIECE):
            yield data


class _Input:
    """As the SDK's: what is written waits for ``drain``."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._eof = False
        self.drain = SimpleNamespace(aio=self._drain)

    def write(self, data: bytes) -> None:
        self._writer.write(data)

    def write_eof(self) -> None:
        self._eof = True

    async def _drain(self) -> None:
        with suppress(OSError):
            await self._writer.drain()
            if self._eof:
                self._writer.close()


class _Process:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout and process.stderr and process.stdin
        self.stdout, self.stderr, self.stdin = _Stream(process.stdout), _Stream(process.stderr), _Input(process.stdin)
        self._process = process
        self.wait = SimpleNamespace(aio=self._wait)

    async def _wait(self) -> int:
        code = await self._process.wait()
        return 128 - code if code < 0 else code


class _Recipe:
    """An image at Modal, built or to be."""

    def __init__(self, cloud: Cloud, base: str, steps: tuple[BuildStep, ...] = ()) -> None:
        self._cloud, self._steps = cloud, steps
        self.object_id = base
        self.build = _Call(_Image.build, self._build, self)
        self.publish = _Call(_Image.publish, self._publish, self)

    def add_local_file(self, *args: Any, **kwargs: Any) -> _Recipe:
        asked = inspect.signature(_Image.add_local_file).bind(self, *args, **kwargs).arguments
        assert asked["copy"] is True, "what is not copied is not there for the next step"
        return self._with(_packed(Path(asked["local_path"]), asked["remote_path"]))

    def dockerfile_commands(self, *lines: str, **kwargs: Any) -> _Recipe:
        asked = inspect.signature(_Image.dockerfile_commands).bind(self, *lines, **kwargs).arguments
        recipe = self
        for line in lines:
            word, _, rest = line.partition(" ")
            if word == "RUN":
                recipe = recipe._with(BuildStep(command=rest))
            elif word == "COPY":
                source, target = rest.split()
                recipe = recipe._with(_packed(Path(asked["context_dir"]) / source, target))
            else:
                assert word in ("USER", ""), line
        return recipe

    def _with(self, step: BuildStep) -> _Recipe:
        return _Recipe(self._cloud, self.object_id, (*self._steps, step))

    async def _build(self, app: object) -> _Recipe:
        name = self._cloud.names.get(self.object_id, self.object_id)
        if name not in self._cloud.images:
            raise modal.exception.NotFoundError(f"Image {name} not found")
        if not self._steps:
            return _Recipe(self._cloud, name)
        base = self._cloud.images[name]
        name = f"im-{len(self._cloud.images)}-{secrets.token_hex(4)}"
        folder = self._cloud.folder / name
        folder.mkdir()
        try:
            self._cloud.images[name] = await build(base, self._steps, folder)
        except Failed as error:
            raise modal.exception.ImageBuildError(f"Image build for {name} failed: {error}", name) from None
        return _Recipe(self._cloud, name)

    async def _publish(self, name: str, *, client: object) -> None:
        self._cloud.names[name] = self.object_id


def _packed(path: Path, target: str) -> BuildStep:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        archive.add(path, path.name)
    return BuildStep(archive=packed.getvalue(), source=path.name, target=target)


class _Box:
    """One sandbox at Modal."""

    def __init__(self, cloud: Cloud, machine: Machine, asked: dict[str, Any]) -> None:
        self._cloud, self._machine, self.asked = cloud, machine, asked
        self.object_id = f"sb-{asked['name'][-12:]}"
        self._commands: list[asyncio.subprocess.Process] = []
        self._tunnel: asyncio.Server | None = None
        self.ended = False
        self.exec = _Call(_Sandbox.exec, self._exec, self)
        self.poll = _Call(_Sandbox.poll, self._poll, self)
        self.tunnels = _Call(_Sandbox.tunnels, self._tunnels, self)
        self.get_tags = _Call(_Sandbox.get_tags, self._get_tags, self)
        self.terminate = _Call(_Sandbox.terminate, self.end, self)

    async def _exec(self, *line: str, text: bool = True, timeout: int | None = None) -> _Process:
        self._there()
        env = {"PATH": "/usr/local/bin:/usr/bin:/bin"}
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *self._machine.enter(), *line, stdin=pipe, stdout=pipe, stderr=pipe, env=env, start_new_session=True
        )
        self._commands.append(process)
        return _Process(process)

    async def _poll(self) -> int | None:
        return 137 if self.ended else None

    async def _get_tags(self) -> dict[str, str]:
        self._there()
        return self.asked["tags"]

    async def _tunnels(self, timeout: int = 50) -> dict[int, Any]:
        self._there()
        [port] = self.asked["encrypted_ports"]
        if self._tunnel is None:
            self._tunnel = await asyncio.start_server(lambda r, w: self._forward(r, w, port), "127.0.0.1", 0)
        address = self._tunnel.sockets[0].getsockname()[1]
        return {port: SimpleNamespace(url=f"http://127.0.0.1:{address}")}

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
        async def pass_on(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
            with suppress(OSError):
                while data := await source.read(_PIECE):
                    target.write(data)
                    await target.drain()
            target.close()

        inner_reader, inner_writer = await asyncio.open_unix_connection(str(self._machine.tunnel))
        try:
            inner_writer.write(f"{port}\n".encode())
            if await inner_reader.readline() == b"\n":
                await asyncio.gather(pass_on(reader, inner_writer), pass_on(inner_reader, writer))
        finally:
            for open_one in (writer, inner_writer):
                open_one.close()
                with suppress(OSError):
                    await open_one.wait_closed()

    async def end(self, wait: bool = False) -> None:
        self.ended = True
        self._cloud.boxes.pop(self.asked["name"], None)
        if self._tunnel is not None:
            self._tunnel.close()
        await self._machine.end()
        for process in self._commands:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()

    def _there(self) -> None:
        if self.ended:
            raise modal.exception.NotFoundError("sandbox has already shut down")


class Cloud:
    """All of Modal.

    Args:
        folder: Where its machines lie.
        images: What there is, by id.
        limit: How many sandboxes the workspace may have.
    """

    def __init__(self, folder: Path, images: dict[str, TemplateImage], *, limit: int = 20) -> None:
        self.folder = folder
        self.images = images
        self.names: dict[str, str] = {}
        self._limit = limit
        self.boxes: dict[str, _Box] = {}
        self.fails: Exception | None = None

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Stand in the SDK's place."""
        box = SimpleNamespace(
            create=_Call(_Sandbox.create, self._create),
            list=_Call(_Sandbox.list, self._list),
            from_name=_Call(_Sandbox.from_name, self._from_name),
        )
        patch.setattr(modal, "Sandbox", box)
        patch.setattr(modal, "App", SimpleNamespace(lookup=_Call(_App.lookup, self._lookup)))
        credentials = _Call(_Client.from_credentials, self._credentials, _Client)
        patch.setattr(modal, "Client", SimpleNamespace(from_credentials=credentials))
        image = SimpleNamespace(
            from_id=lambda name, client: _Recipe(self, name), from_name=lambda name, client: _Recipe(self, name)
        )
        patch.setattr(modal, "Image", image)
        delete = _Call(modal.experimental.image_delete, self._delete)
        patch.setattr(modal.experimental, "image_delete", delete)

    async def close(self) -> None:
        """End everything."""
        for box in list(self.boxes.values()):
            await box.end()

    async def _credentials(self, token: str, secret: str) -> object:
        if (token, secret) != (TOKEN, SECRET):
            raise modal.exception.AuthError(f"Token {token} with {secret} not found")
        return SimpleNamespace()

    async def _lookup(self, name: str, **_: Any) -> object:
        return SimpleNamespace(app_id=f"ap-{name}")

    async def _create(self, *line: str, **asked: Any) -> _Box:
        if self.fails is not None:
            raise self.fails
        if asked["name"] in self.boxes:
            raise modal.exception.AlreadyExistsError(f"sandbox {asked['name']} exists")
        if len(self.boxes) >= self._limit:
            raise modal.exception.ResourceExhaustedError("too many sandboxes")
        image = await asked["image"].build.aio(None)
        machine = Machine(self.folder / asked["name"], self.images[image.object_id], "none")
        box = self.boxes[asked["name"]] = _Box(self, machine, asked)
        await machine.start()
        return box

    async def _delete(self, name: str, *, client: object) -> None:
        if self.images.pop(name, None) is None:
            raise modal.exception.NotFoundError(f"Image {name} not found")

    async def _list(self, *, app_id: str, tags: dict[str, str], client: object) -> AsyncIterator[_Box]:
        for box in list(self.boxes.values()):
            if tags.items() <= box.asked["tags"].items():
                yield box

    async def _from_name(self, app: str, name: str, **_: Any) -> _Box:
        if name not in self.boxes:
            raise modal.exception.NotFoundError(f"no sandbox {name}")
        return self.boxes[name]
