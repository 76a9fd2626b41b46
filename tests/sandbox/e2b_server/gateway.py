"""The one door: finds whose request it is, control plane or machine, passes its bytes on, and breaks what it should.

A connection carries one request, since the next may be for somebody else; WebSockets and streams go through as they
are. What a caller gets where there is no machine, or nobody behind a port, is what E2B's own gateway says.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

from tests.sandbox.e2b_server.machine import Machine

__all__ = ["Fault", "Gateway", "Seen"]

ENVD_PORT = 49983
_MAX_HEAD_BYTES = 64 * 1024


@dataclass
class Fault:
    """What goes wrong with requests whose line (``POST /v2/sandboxes``) matches.

    Attributes:
        line: A regular expression.
        times: How often; then it is over.
        status: What is answered instead; 0 to pass the request on.
        message: For the answer.
        headers: For the answer.
        cut_after: Passed on, but the connection is broken after that many bytes of the answer.
        before: Called before anything else.
    """

    line: str
    times: int = 1
    status: int = 0
    message: str = "injected"
    headers: dict[str, str] = field(default_factory=dict)
    cut_after: int | None = None
    before: Callable[[], Awaitable[None]] | None = None


@dataclass(frozen=True)
class Seen:
    """A request as it came in."""

    line: str
    headers: dict[str, str]


class Gateway:
    """Serves on loopback.

    Args:
        control: The control plane's socket.
        find: Gives the running machine of an E2B id, and the token for its ports; None when there is none.
    """

    def __init__(self, control: str, find: Callable[[str], tuple[Machine, str | None] | None]) -> None:
        self.faults: list[Fault] = []
        self.seen: list[Seen] = []
        self.cuts = 0
        self._control = control
        self._find = find
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> str:
        """Listen, and return the address."""
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", 0)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def close(self) -> None:
        """Stop listening, and break what is left."""
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._serve(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        first, *rest = head.decode("latin-1").rstrip("\r\n").split("\r\n")
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in rest)}
        line = first.rpartition(" ")[0]
        self.seen.append(Seen(line, headers))
        fault = next((fault for fault in self.faults if fault.times > 0 and re.search(fault.line, line)), None)
        cut_after = None
        if fault is not None:
            fault.times -= 1
            cut_after = fault.cut_after
            if fault.before is not None:
                await fault.before()
            if fault.status:
                await self._read_body(reader, headers)
                self._answer(writer, fault.status, fault.message, fault.headers)
                return
        target = await self._target(writer, headers)
        if target is None:
            await self._read_body(reader, headers)
            return
        inner_reader, inner_writer = target
        inner_writer.write(self._rewritten(first, rest, headers))
        try:
            await self._pipe(reader, writer, inner_reader, inner_writer, cut_after)
        finally:
            inner_writer.close()

    async def _target(
        self, writer: asyncio.StreamWriter, headers: dict[str, str]
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        name, port = headers.get("e2b-sandbox-id"), int(headers.get("e2b-sandbox-port", "0"))
        if name is None:
            return await asyncio.open_unix_connection(self._control)
        found = self._find(name)
        if found is None:
            self._answer(writer, 502, f"The sandbox {name} was not found", {})
            return None
        machine, token = found
        if port == ENVD_PORT:
            return await asyncio.open_unix_connection(str(machine.inner))
        if token is not None and headers.get("e2b-traffic-access-token") != token:
            self._answer(writer, 403, "The sandbox is secured; send its traffic access token", {})
            return None
        reader, inner = await asyncio.open_unix_connection(str(machine.tunnel))
        inner.write(f"{port}\n".encode())
        if await reader.read(1) != b"\n":
            inner.close()
            self._answer(writer, 502, f"The sandbox is running but port is not open: {port}", {})
            return None
        return reader, inner

    def _rewritten(self, first: str, rest: list[str], headers: dict[str, str]) -> bytes:
        port = headers.get("e2b-sandbox-port")
        if "upgrade" not in headers.get("connection", "").lower():
            rest = [line for line in rest if not line.lower().startswith("connection:")] + ["Connection: close"]
        if port is not None and int(port) != ENVD_PORT:  # what mask_request_host asks for
            rest = [f"Host: localhost:{port}" if line.lower().startswith("host:") else line for line in rest]
        return ("\r\n".join([first, *rest]) + "\r\n\r\n").encode("latin-1")

    async def _pipe(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        inner_reader: asyncio.StreamReader,
        inner_writer: asyncio.StreamWriter,
        cut_after: int | None,
    ) -> None:
        async def inwards() -> None:
            while data := await reader.read(65536):
                inner_writer.write(data)
                await inner_writer.drain()

        async def outwards() -> None:
            passed = 0
            while data := await inner_reader.read(65536):
                passed += len(data)
                if cut_after is not None and passed >= cut_after:
                    writer.write(data[: len(data) - (passed - cut_after)])
                    await writer.drain()
                    writer.transport.abort()
                    self.cuts += 1
                    return
                writer.write(data)
                await writer.drain()

        tasks = [asyncio.create_task(inwards()), asyncio.create_task(outwards())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if tasks[0].done() and not tasks[1].done() and tasks[0].exception() is None:
                return  # the caller went away
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _read_body(self, reader: asyncio.StreamReader, headers: dict[str, str]) -> None:
        with suppress(asyncio.IncompleteReadError, ValueError):
            await reader.readexactly(int(headers.get("content-length", "0")))

    def _answer(self, writer: asyncio.StreamWriter, status: int, message: str, headers: dict[str, str]) -> None:
        body = json.dumps({"code": status, "message": message}).encode()
        lines = [f"HTTP/1.1 {status} Refused", "Content-Type: application/json", f"Content-Length: {len(body)}"]
        lines += ["Connection: close", *(f"{name}: {value}" for name, value in headers.items())]
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode() + body)
