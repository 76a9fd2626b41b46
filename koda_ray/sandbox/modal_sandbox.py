"""One sandbox at Modal: the helper inside for its files, Modal's exec for its commands, a tunnel for its preview."""

from __future__ import annotations

import asyncio
import base64
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, Literal

from koda_ray.cancellation import finish
from koda_ray.errors import (
    KodaError,
    QuotaExceeded,
    SandboxError,
    SandboxNotFound,
    ServerFailed,
    TemplateNotFound,
)
from koda_ray.sandbox import modal_machine, policy
from koda_ray.sandbox.asked import OUTPUT_BYTES, AskedSandbox, nonsense, read_answer
from koda_ray.sandbox.base import CommandResult, PreviewEndpoint, Terminal
from koda_ray.sandbox.kept import Kept
from koda_ray.sandbox.lifetime import checked_lifetime
from koda_ray.sandbox.modal_app import ImageAtModal, ModalApp, ModalTerms
from koda_ray.sandbox.modal_terminal import ModalTerminal
from koda_ray.sandbox.packed import MAX_ANSWER_BYTES, Header, pack
from koda_ray.sandbox.preview import DEV_PORT, PREVIEW, answers_at, dev_server, late, server_ended
from koda_ray.sandbox.record import created_at_s
from koda_ray.sandbox.shipped import helper

if TYPE_CHECKING:
    import modal
    from modal.container_process import ContainerProcess
    from modal.io_streams import StreamReader

__all__ = ["LONGEST_S", "ModalSandbox"]

LONGEST_S = 86_400
"""How long Modal lets one live at most, whatever happens."""

_CALL_TIMEOUT_S = 120.0
_END_TIMEOUT_S = 20.0
_GRACE_S = 60
_PROBE_PERIOD_S = 0.1
_ENTRYPOINT = "/opt/koda"


class _NoHelper(Exception):
    """The helper is not in the sandbox."""


class ModalSandbox(AskedSandbox):
    """A project in a container at Modal; made by ``ModalProvider``.

    Attributes:
        image: What it started from.

    Args:
        sandbox_id: Ours, and its name there.
        found: Modal's.
        app: What it belongs to.
        image: What it started from.
        terms: How it lives there.
        destroy: Ends it.
    """

    def __init__(
        self,
        sandbox_id: str,
        found: modal.Sandbox,
        *,
        app: ModalApp,
        image: ImageAtModal,
        terms: ModalTerms,
        destroy: Callable[[], Awaitable[None]],
    ) -> None:
        super().__init__(sandbox_id, egress=terms.egress)
        self._modal = found
        self._app = app
        self.image = image
        self._terms = terms
        self._destroy = destroy
        self._ends_at = time.monotonic() + terms.lifetime_s
        self._ends_at_last = time.monotonic() + created_at_s(sandbox_id) + LONGEST_S - time.time()
        self._gone = False
        self._previewing = asyncio.Lock()

    @property
    def provider_id(self) -> str:
        """What it is at its provider; see ``Sandbox``."""
        return self._modal.object_id

    @property
    def provider(self) -> str:
        """The provider's name."""
        return "modal"

    async def is_alive(self) -> bool:
        """Whether commands and files still work.

        Raises:
            SandboxError: Modal could not be asked, so nobody knows.
        """
        if self._gone:
            return False
        try:
            with self._translated("look at a sandbox"):
                alive = await self._modal.poll.aio() is None
        except SandboxNotFound:
            alive = False
        if not alive:
            self._living.stop()
        return alive

    async def extend(self, lifetime_s: float) -> float:
        """Keep it from being idle for this long, by a command that waits; see ``Sandbox``.

        Raises:
            QuotaExceeded: QUOTA_EXCEEDED, Modal ends it a day after it was made, whatever happens.
        """
        wanted_s = checked_lifetime(lifetime_s)
        if time.monotonic() + wanted_s > self._ends_at_last:
            raise QuotaExceeded(
                f"Modal ends a sandbox {LONGEST_S:g} s after it was made, so it cannot live for {wanted_s:g} s more; "
                "take a checkpoint and restore it into another",
                context={"limit": "lifetime"},
            )
        self._check_there()
        if time.monotonic() + wanted_s > self._ends_at:
            with self._translated("extend a sandbox's lifetime"):
                await self._modal.exec.aio("sleep", f"{wanted_s:.0f}", timeout=int(wanted_s) + _GRACE_S)
            self._ends_at = time.monotonic() + wanted_s
        return self._ends_at - time.monotonic()

    # processes

    async def stop(self, name: str) -> None:
        """End a background process and its tree; see ``Sandbox``."""
        await self._ask({"do": "stop", "name": policy.check_process_name(name)}, part="processes")

    async def end_marked(self, mark: str) -> None:
        """End processes by a mark, from outside of their name spaces; see ``EndsMarked``.

        gVisor lets nobody mount a ``/proc`` of a process name space of their own.
        """
        await self._ask({"do": "end_marked", "mark": mark}, part="processes")

    async def reach(self, port: int, *, of: str) -> PreviewEndpoint:
        """Say where a tunnel leads to a port, whichever process listens there; see ``Sandbox``."""
        return PreviewEndpoint(url=await self._tunnel(port), base="/")

    async def start_preview(self, *, timeout_s: float = 30.0) -> PreviewEndpoint:
        """Start the dev server, or return the running one, at its tunnel's address; see ``Sandbox``."""
        async with self._previewing:
            endpoint = PreviewEndpoint(url=await self._tunnel(DEV_PORT))
            if await answers_at(endpoint):
                return endpoint
            argv = dev_server(DEV_PORT, host="0.0.0.0")  # what a tunnel leads to
            await self._start(PREVIEW, argv, {"KODA_BASE": endpoint.base}, network=True)
            try:
                async with asyncio.timeout(timeout_s):
                    while not await answers_at(endpoint):
                        server = next((one for one in await self.processes() if one.name == PREVIEW), None)
                        if server is None or not server.running:
                            raise server_ended(server.exit_code if server else None, await self._last_lines())
                        await asyncio.sleep(_PROBE_PERIOD_S)
            except TimeoutError:
                lines = await self._last_lines()
                await self.stop(PREVIEW)
                raise late(timeout_s, lines) from None
            except asyncio.CancelledError:
                with suppress(KodaError):
                    await finish(self.stop(PREVIEW))
                raise
            return endpoint

    # its life

    async def prepare(self) -> None:
        """Make a new sandbox ready: bring the helper in and look whether the image is one of ours.

        Raises:
            TemplateNotFound: TEMPLATE_NOT_FOUND, it holds no project, packages or programs, or confines nothing.
        """
        await self._bring()
        try:
            await self._ask({"do": "check", "project": "any" if self.image.own else "koda"})
        except TemplateNotFound as error:
            raise self.image.unusable(error.message) from None
        confined = await self.run(("true",))
        if confined.exit_code != 0:
            why = confined.stderr.strip()[-200:] or f"exit code {confined.exit_code}"
            raise self.image.unusable(f"a command in it cannot be confined ({why})")
        self.ready()

    def ready(self) -> None:
        """Say that its project is there: it was made ready, now or by whoever made it."""
        self._living.filled()

    def forget(self) -> None:
        """Take it for gone, without asking."""
        self._gone = True
        self._living.stop()

    async def destroy(self) -> None:
        """End every process and remove every file; may be called twice."""
        await self._destroy()

    # inside

    async def _run(self, walls: Sequence[str], program: str, *, timeout_s: float) -> CommandResult:
        key = secrets.token_hex(8)
        out, errors = (Kept(head_bytes=OUTPUT_BYTES // 2, tail_bytes=OUTPUT_BYTES // 2) for _ in range(2))
        self._check_there()
        began = time.monotonic()
        running = asyncio.create_task(self._finish(modal_machine.traceable(walls, key=key), out, errors, timeout_s))
        try:
            async with asyncio.timeout(timeout_s):
                exit_code = await asyncio.shield(running)
        except TimeoutError:
            await self._end(key, running)
            raise self._late(program, out, errors, timeout_s=timeout_s) from None
        except asyncio.CancelledError:
            await finish(self._end(key, running))
            raise
        if exit_code < 0 or (exit_code != 0 and not await self.is_alive()):
            raise self._not_there()
        return self._ended(exit_code, out, errors, duration_s=time.monotonic() - began)

    async def _open_terminal(self, argv: Sequence[str], *, size: tuple[int, int], env: Mapping[str, str]) -> Terminal:
        await self._ask({"do": "check", "project": "any"})  # brings the helper in, where another version's is there
        walls = self._walls(argv, cwd=".", env=env, network=False)
        return await ModalTerminal.open(
            self._modal,
            modal_machine.terminal(
                base64.b64encode(pack({"argv": walls, "rows": size[0], "columns": size[1]}, {})).decode(),
                helper=f"{_ENTRYPOINT}/{helper().name}",
            ),
            lasts_s=LONGEST_S,
            translated=self._translated,
        )

    async def _finish(self, line: Sequence[str], out: Kept, errors: Kept, timeout_s: float) -> int:
        with self._translated("run a command"):
            process = await self._modal.exec.aio(*line, text=False, timeout=int(timeout_s) + _GRACE_S)
            await asyncio.gather(_collect(process.stdout, out), _collect(process.stderr, errors))
            return await process.wait.aio()

    async def _end(self, key: str, running: asyncio.Task[int]) -> None:
        """End a command with all that it started, and wait until it is over."""
        with suppress(KodaError, TimeoutError, ValueError):
            async with asyncio.timeout(_END_TIMEOUT_S):
                with self._translated("find a command"):
                    pid = (await self._call(modal_machine.pid_of(key))).decode()
                await self._put({"do": "end", "pid": int(pid)}, {}, part="processes")
        await asyncio.wait({running}, timeout=_END_TIMEOUT_S)
        running.cancel()
        await asyncio.wait({running})
        if not running.cancelled():
            running.exception()  # it has been told

    def _walls(self, argv: Sequence[str], *, cwd: str, env: Mapping[str, str], network: bool) -> list[str]:
        return modal_machine.confined(argv, cwd=cwd, env=env, pids=self._terms.pids, network=network)

    async def _ask(
        self,
        question: Header,
        files: Mapping[str, bytes] | None = None,
        *,
        part: Literal["files", "processes"] = "files",
    ) -> tuple[Header, dict[str, bytes]]:
        self._check_there()
        return await self._put(question, files or {}, part=part)

    async def _put(
        self, question: Header, files: Mapping[str, bytes], *, part: Literal["files", "processes"]
    ) -> tuple[Header, dict[str, bytes]]:
        line = modal_machine.asking(part, helper=f"{_ENTRYPOINT}/{helper().name}")
        packed = pack(question, files)
        with self._translated(f"work on {part}"):
            try:
                answer = await self._call(line, packed)
            except _NoHelper:
                await self._bring()
                answer = await self._call(line, packed)
        return read_answer(self._id, answer)

    async def _bring(self) -> None:
        found = helper()
        with self._translated("bring its helper into a sandbox"):
            await self._call(modal_machine.receiving(f"{_ENTRYPOINT}/{found.name}"), found.data)

    async def _call(self, line: Sequence[str], data: bytes = b"") -> bytes:
        """Run one of our own commands with something to read, and return what it writes."""
        async with asyncio.timeout(_CALL_TIMEOUT_S):
            process = await self._modal.exec.aio(*line, text=False, timeout=int(_CALL_TIMEOUT_S))
            errors = Kept(head_bytes=0, tail_bytes=2000)
            answer, _, _ = await asyncio.gather(
                _read(process, self._id), _collect(process.stderr, errors), _give(process, data)
            )
            exit_code = await process.wait.aio()
        if exit_code == modal_machine.NO_HELPER:
            raise _NoHelper
        if exit_code in (126, 127):
            raise self.image.unusable(f"python3 (3.11 or newer) and util-linux must be in it ({errors.text()[-200:]})")
        if exit_code != 0:
            if not await self.is_alive():
                raise self._not_there()
            said = errors.text().strip()[-300:] or "no message"
            raise SandboxError(
                f"the helper in the sandbox {self._id} failed with code {exit_code} ({said}); make another sandbox and "
                "restore the last checkpoint into it",
                retryable=True,
            )
        return answer

    async def _tunnel(self, port: int) -> str:
        self._check_there()
        with self._translated("open a tunnel"):
            tunnels = await self._modal.tunnels.aio()
        if port not in tunnels:
            raise ServerFailed(
                f"Modal leads to port {DEV_PORT} of {self._id} only, not to {port}: it opens ports when it makes a "
                f"sandbox; have the process listen on {DEV_PORT}, on 0.0.0.0",
                code="PORT_UNAVAILABLE",
                context={"port": port},
            )
        return tunnels[port].url

    def _translated(self, doing: str) -> AbstractContextManager[None]:
        return self._app.translated(doing, sandbox_id=self._id)

    def _check_there(self) -> None:
        if self._gone:
            raise self._not_there()
        self._check_held()

    def _not_there(self) -> SandboxNotFound:
        self._living.stop()
        return SandboxNotFound(
            f"the sandbox {self._id} is gone; make another and restore the last checkpoint into it",
            context={"sandbox_id": self._id},
        )


async def _collect(stream: StreamReader[bytes], kept: Kept) -> None:
    async for data in stream:
        kept.add(data)


async def _read(process: ContainerProcess[bytes], sandbox_id: str) -> bytes:
    pieces: list[bytes] = []
    size = 0
    async for data in process.stdout:
        size += len(data)
        if size > MAX_ANSWER_BYTES:
            raise nonsense(sandbox_id, f"more than {MAX_ANSWER_BYTES} bytes")
        pieces.append(data)
    return b"".join(pieces)


async def _give(process: ContainerProcess[bytes], data: bytes) -> None:
    if data:
        process.stdin.write(data)
        process.stdin.write_eof()
        await process.stdin.drain.aio()
