# ruff: noqa: E402
"""What runs in each machine: E2B's process and file services (Connect), file transfer and health, and a tunnel."""

from __future__ import annotations

import asyncio
import base64
import fcntl
import os
import pwd
import shutil
import signal
import socket
import sys
import termios
import types
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

# the SDK's client half is not needed here, and to import it takes longer than all the rest
sys.modules["e2b"] = types.ModuleType("e2b")
sys.modules["e2b"].__path__ = [str(Path(folder) / "e2b") for folder in sys.path if (Path(folder) / "e2b").is_dir()]

import uvicorn
from connectrpc.code import Code
from connectrpc.errors import ConnectError
from connectrpc.request import RequestContext
from e2b.envd.client_shared import ENVD_JSON_CODEC
from e2b.envd.filesystem import filesystem_connect, filesystem_pb
from e2b.envd.process import process_connect, process_pb
from protobuf import Oneof
from starlette.applications import Starlette
from starlette.requests import HTTPConnection, Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

Event = process_pb.ProcessEvent
_CHUNK_BYTES = 32 * 1024
_PAUSE_S = 0.005
_REST_S = 1.0


def user_of(headers: dict[str, str]) -> pwd.struct_passwd:
    """The user that a call asks for: E2B takes it from basic authentication without a password."""
    kind, _, value = headers.get("authorization", "").partition(" ")
    name = base64.b64decode(value).decode().partition(":")[0] if kind == "Basic" else "user"
    try:
        return pwd.getpwnam(name)
    except KeyError:
        raise ConnectError(Code.UNAUTHENTICATED, f"invalid username: '{name}'") from None


@dataclass
class Running:
    """A process, and those who listen to it."""

    process: asyncio.subprocess.Process
    config: process_pb.ProcessConfig
    terminal: int | None = None
    listeners: list[asyncio.Queue[process_pb.ProcessEvent]] = field(default_factory=list)
    task: asyncio.Task[None] | None = None

    async def follow(self, limit_s: float | None) -> None:
        """Pass on its output until it has ended, or its time is over; then what it left to be read, and no more."""
        streams = (("stdout", self.process.stdout), ("stderr", self.process.stderr))
        pumps = [asyncio.create_task(self._pump(name, stream)) for name, stream in streams if stream is not None]
        if self.terminal is not None:
            pumps = [asyncio.create_task(self._pump_terminal(self.terminal))]
        try:
            async with asyncio.timeout(limit_s):
                code = await self.process.wait()
        except TimeoutError:
            with suppress(ProcessLookupError):
                self.process.kill()
            code = await self.process.wait()
        # they end by themselves when nobody has the other end; what outlives the process may have it for ever
        await asyncio.wait(pumps, timeout=_REST_S)
        for pump in pumps:
            pump.cancel()
        await asyncio.wait(pumps)
        end = Event.EndEvent(exit_code=max(code, -1), exited=code >= 0, status=f"exit status {code}")
        if code < 0:
            end = Event.EndEvent(exit_code=-1, exited=False, status="signal: killed", error="signal: killed")
        await self._tell(Event(event=Oneof("end", end)))

    async def _pump_terminal(self, fd: int) -> None:
        loop, readable = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(fd, readable.set)
        try:
            while True:
                await readable.wait()
                readable.clear()
                with suppress(BlockingIOError):
                    data = os.read(fd, _CHUNK_BYTES)
                    await self._tell(Event(event=Oneof("data", Event.DataEvent(output=Oneof("pty", data)))))
        except OSError:
            pass  # nobody has its other end any more
        finally:
            loop.remove_reader(fd)

    async def _pump(self, name: str, stream: asyncio.StreamReader) -> None:
        while data := await stream.read(_CHUNK_BYTES):
            output = Oneof("stdout", data) if name == "stdout" else Oneof("stderr", data)
            await self._tell(Event(event=Oneof("data", Event.DataEvent(output=output))))

    async def _tell(self, event: process_pb.ProcessEvent) -> None:
        for queue in list(self.listeners):
            await queue.put(event)

    async def events(self) -> AsyncIterator[process_pb.ProcessEvent]:
        """Listen from now on."""
        queue: asyncio.Queue[process_pb.ProcessEvent] = asyncio.Queue(16)
        self.listeners.append(queue)
        try:
            yield Event(event=Oneof("start", Event.StartEvent(pid=self.process.pid)))
            while True:
                event = await queue.get()
                yield event
                if event.event is not None and event.event.field == "end":
                    return
        finally:
            self.listeners.remove(queue)
            while not queue.empty():  # a full one would hold the process up
                queue.get_nowait()


class Processes(process_connect.Process):
    """The process service."""

    def __init__(self) -> None:
        self._running: dict[int, Running] = {}

    async def list(
        self, request: process_pb.ListRequest, ctx: RequestContext[process_pb.ListRequest, process_pb.ListResponse]
    ) -> process_pb.ListResponse:
        return process_pb.ListResponse(
            processes=[process_pb.ProcessInfo(config=r.config, pid=pid) for pid, r in self._running.items()]
        )

    async def start(
        self, request: process_pb.StartRequest, ctx: RequestContext[process_pb.StartRequest, process_pb.StartResponse]
    ) -> AsyncIterator[process_pb.StartResponse]:
        config = request.process
        assert config is not None
        user = user_of(dict(ctx.request_headers))
        folder = config.cwd if config.has_field("cwd") else user.pw_dir
        if not os.path.isdir(folder):
            raise ConnectError(Code.INVALID_ARGUMENT, f"cwd '{folder}' does not exist")
        terminal = ours = None
        if request.pty is not None and request.pty.size is not None:
            ours, terminal = os.openpty()
            os.set_blocking(ours, False)
            termios.tcsetwinsize(ours, (request.pty.size.rows, request.pty.size.cols))
        pipe = asyncio.subprocess.PIPE if terminal is None else terminal
        process = await asyncio.create_subprocess_exec(
            config.cmd, *config.args, cwd=folder, user=user.pw_uid, group=user.pw_gid, extra_groups=[],
            env={"PATH": os.environ["PATH"], "HOME": user.pw_dir, "USER": user.pw_name, **config.envs},
            stdin=asyncio.subprocess.DEVNULL if terminal is None else terminal, stdout=pipe, stderr=pipe,
            start_new_session=True,
            preexec_fn=None if terminal is None else lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )  # fmt: skip
        if terminal is not None:
            os.close(terminal)
        running = self._running[process.pid] = Running(process, config, ours)
        events = running.events()
        yield process_pb.StartResponse(event=await anext(events))
        limit_ms = ctx.request_headers.get("connect-timeout-ms")
        # not the caller's: a process goes on when the caller's connection breaks
        running.task = asyncio.create_task(self._follow(running, int(limit_ms) / 1000 if limit_ms else None))
        async for event in events:
            yield process_pb.StartResponse(event=event)

    async def _follow(self, running: Running, limit_s: float | None) -> None:
        try:
            await running.follow(limit_s)
        finally:
            del self._running[running.process.pid]
            if running.terminal is not None:
                os.close(running.terminal)

    async def connect(
        self,
        request: process_pb.ConnectRequest,
        ctx: RequestContext[process_pb.ConnectRequest, process_pb.ConnectResponse],
    ) -> AsyncIterator[process_pb.ConnectResponse]:
        async for event in self._find(request.process).events():
            yield process_pb.ConnectResponse(event=event)

    async def send_signal(
        self,
        request: process_pb.SendSignalRequest,
        ctx: RequestContext[process_pb.SendSignalRequest, process_pb.SendSignalResponse],
    ) -> process_pb.SendSignalResponse:
        running = self._find(request.process)
        number = signal.SIGKILL if request.signal == process_pb.Signal.SIGKILL else signal.SIGTERM
        with suppress(ProcessLookupError):
            running.process.send_signal(number)
        return process_pb.SendSignalResponse()

    async def send_input(
        self,
        request: process_pb.SendInputRequest,
        ctx: RequestContext[process_pb.SendInputRequest, process_pb.SendInputResponse],
    ) -> process_pb.SendInputResponse:
        terminal = self._find(request.process).terminal
        match request.input.input if request.input is not None else None:
            case Oneof(field="pty", value=bytes(data)) if terminal is not None:
                while data:
                    try:
                        data = data[os.write(terminal, data) :]
                    except BlockingIOError:  # its program has not read yet
                        await asyncio.sleep(_PAUSE_S)
            case _:
                raise ConnectError(Code.INVALID_ARGUMENT, "that is no input for this process")
        return process_pb.SendInputResponse()

    async def update(
        self,
        request: process_pb.UpdateRequest,
        ctx: RequestContext[process_pb.UpdateRequest, process_pb.UpdateResponse],
    ) -> process_pb.UpdateResponse:
        terminal = self._find(request.process).terminal
        if terminal is None or request.pty is None or request.pty.size is None:
            raise ConnectError(Code.INVALID_ARGUMENT, "it has no terminal")
        termios.tcsetwinsize(terminal, (request.pty.size.rows, request.pty.size.cols))
        return process_pb.UpdateResponse()

    def _find(self, selector: process_pb.ProcessSelector | None) -> Running:
        match selector.selector if selector is not None else None:
            case Oneof(field="pid", value=int(pid)) if pid in self._running:
                return self._running[pid]
            case _:
                raise ConnectError(Code.NOT_FOUND, "process not found")


class FileService(filesystem_connect.Filesystem):
    """The file service, as far as it is used: what is moved in bulk goes by HTTP."""

    async def stat(
        self,
        request: filesystem_pb.StatRequest,
        ctx: RequestContext[filesystem_pb.StatRequest, filesystem_pb.StatResponse],
    ) -> filesystem_pb.StatResponse:
        return filesystem_pb.StatResponse(entry=_entry(_existing(request.path)))

    async def list_dir(
        self,
        request: filesystem_pb.ListDirRequest,
        ctx: RequestContext[filesystem_pb.ListDirRequest, filesystem_pb.ListDirResponse],
    ) -> filesystem_pb.ListDirResponse:
        top = _existing(request.path)
        found = sorted(path for path in top.rglob("*") if len(path.relative_to(top).parts) <= max(request.depth, 1))
        return filesystem_pb.ListDirResponse(entries=[_entry(path) for path in found])

    async def remove(
        self,
        request: filesystem_pb.RemoveRequest,
        ctx: RequestContext[filesystem_pb.RemoveRequest, filesystem_pb.RemoveResponse],
    ) -> filesystem_pb.RemoveResponse:
        path = Path(request.path)
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
        return filesystem_pb.RemoveResponse()


def _existing(path: str) -> Path:
    if not os.path.lexists(path):
        raise ConnectError(Code.NOT_FOUND, f"path not found: {path}")
    return Path(path)


def _entry(path: Path) -> filesystem_pb.EntryInfo:
    info = path.lstat()
    kind = filesystem_pb.FileType.DIRECTORY if path.is_dir() else filesystem_pb.FileType.FILE
    return filesystem_pb.EntryInfo(
        name=path.name, type=kind, path=str(path), size=info.st_size, mode=info.st_mode & 0o7777,
        owner=str(info.st_uid), group=str(info.st_gid),
    )  # fmt: skip


async def upload(request: Request) -> Response:
    """Take files as a form, one or more; a new file and new directories are the user's who is named."""
    user = pwd.getpwnam(request.query_params.get("username", "user"))
    written: list[dict[str, str]] = []
    async with request.form() as form:
        for part in form.getlist("file"):
            assert not isinstance(part, str)
            path = Path(request.query_params.get("path") or part.filename or "")
            for parent in reversed(path.parents):
                if not parent.exists():
                    parent.mkdir(mode=0o755)
                    os.chown(parent, user.pw_uid, user.pw_gid)
            try:
                with path.open("wb") as file:
                    while data := await part.read(1 << 20):
                        file.write(data)
            except OSError as error:
                return JSONResponse({"code": 507, "message": f"error writing file: {error.strerror}"}, 507)
            os.chown(path, user.pw_uid, user.pw_gid)
            written.append({"path": str(path), "name": path.name, "type": "file"})
    return JSONResponse(written)


async def download(request: Request) -> Response:
    """Send a file."""
    path = Path(request.query_params["path"])
    if not path.is_file():
        return JSONResponse({"code": 404, "message": f"path '{path}' does not exist"}, 404)
    return FileResponse(path)


async def health(request: Request) -> Response:
    """Say that the machine is there."""
    return Response(status_code=204)


class Token:
    """Lets nobody in who does not know the machine's token; whether it is there is no secret."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app, self._token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] != "/health":
            seen = HTTPConnection(scope).headers.get("x-access-token", "")
            if seen != self._token:
                refusal = JSONResponse({"code": 401, "message": f"unauthorized access token {seen}"}, 401)
                await refusal(scope, receive, send)
                return
        await self._app(scope, receive, send)


async def tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass bytes between a caller and a port of the machine's own."""
    try:
        port = int(await reader.readline())
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", port)
    except (OSError, ValueError):
        writer.close()
        return
    writer.write(b"\n")

    async def pass_on(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(65536):
                target.write(data)
                await target.drain()
        with suppress(OSError):
            target.close()

    await asyncio.gather(pass_on(reader, inner_writer), pass_on(inner_reader, writer))


async def main(token: str) -> None:
    codecs = [ENVD_JSON_CODEC]
    process_service = process_connect.ProcessASGIApplication(Processes(), codecs=codecs)
    file_service = filesystem_connect.FilesystemASGIApplication(FileService(), codecs=codecs)
    app = Starlette(
        routes=[
            Route("/health", health),
            Route("/files", upload, methods=["POST"]),
            Route("/files", download, methods=["GET"]),
            Mount(process_service.path, process_service),
            Mount(file_service.path, file_service),
        ]
    )
    os.umask(0o022)
    listening = socket.socket(socket.AF_UNIX)
    listening.bind("/run/envd.sock")
    server = uvicorn.Server(uvicorn.Config(Token(app, token), log_level="warning", lifespan="off", ws="none"))
    async with await asyncio.start_unix_server(tunnel, "/run/tunnel.sock"):
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        while not server.started:
            await asyncio.sleep(0.005)
        Path("/run/ready").touch()
        await serving


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
