"""One sandbox at E2B: its files through the helper inside (``asked``), its commands through E2B's process service."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from typing import Literal

import e2b
from e2b import AsyncCommandHandle, AsyncSandbox, PtySize

from koda_ray.cancellation import finish, see_through
from koda_ray.errors import KodaError, SandboxNotFound, ServerFailed, TemplateNotFound
from koda_ray.sandbox import e2b_machine, policy
from koda_ray.sandbox.asked import OUTPUT_BYTES, AskedSandbox
from koda_ray.sandbox.base import CommandResult, PreviewEndpoint, Terminal
from koda_ray.sandbox.e2b_cloud import E2BCloud, E2BTemplate, E2BTerms
from koda_ray.sandbox.e2b_errors import not_found
from koda_ray.sandbox.e2b_inside import Inside
from koda_ray.sandbox.e2b_terminal import E2BTerminal
from koda_ray.sandbox.kept import Kept
from koda_ray.sandbox.lifetime import Lifetime, checked_lifetime
from koda_ray.sandbox.packed import Header
from koda_ray.sandbox.preview import DEV_PORT, PREVIEW, answers_at, dev_server, late, server_ended

__all__ = ["E2BSandbox"]

_END_TIMEOUT_S = 20.0
_GRACE_S = 60.0
"""How much longer than its time limit E2B lets a command live whose caller has died."""

_PROBE_PERIOD_S = 0.1
_BURST_CHARS = 4 * 1024 * 1024
_BURST_PAUSE_S = 0.05


class E2BSandbox(AskedSandbox):
    """A project in a virtual machine at E2B; made by ``E2BProvider``.

    Args:
        sandbox_id: Ours; E2B has another of its own.
        found: E2B's.
        cloud: Where it is.
        template: What it started from.
        terms: How it lives there.
        destroy: Ends it, whoever holds it.
    """

    def __init__(
        self,
        sandbox_id: str,
        found: AsyncSandbox,
        *,
        cloud: E2BCloud,
        template: E2BTemplate,
        terms: E2BTerms,
        destroy: Callable[[], Awaitable[None]],
    ) -> None:
        super().__init__(sandbox_id, egress=terms.egress)
        self._e2b = found
        self._cloud = cloud
        self._template = template
        self._terms = terms
        self._destroy = destroy
        self._gone = False
        self._worked_at: float | None = None
        self._previewing = asyncio.Lock()
        self._inside = Inside(
            sandbox_id, unusable=template.unusable, machine=lambda: self._e2b, translated=self._translated
        )
        self.lifetime = Lifetime(terms.lifetime_s, self._renew)

    @property
    def provider_id(self) -> str:
        """E2B's own id, as its dashboard shows it; see ``Sandbox``."""
        return self._e2b.sandbox_id

    @property
    def provider(self) -> str:
        """The provider's name."""
        return "e2b"

    async def is_alive(self) -> bool:
        """Whether commands and files still work, also when a paused one must be resumed first.

        E2B is asked only when no call has succeeded in the last seconds: its answers are counted.

        Raises:
            SandboxError: E2B could not be asked, so nobody knows.
        """
        if self._gone:
            return False
        if self._worked_lately() and self.lifetime.left_s > 0:
            return True
        try:
            with self._translated("look at a sandbox"):
                await self._e2b.get_info()
        except SandboxNotFound:
            self._living.stop()
            return False
        return True

    async def extend(self, lifetime_s: float) -> float:
        """Have E2B let it live for at least this long from now on; see ``Sandbox``."""
        wanted_s = math.ceil(checked_lifetime(lifetime_s))
        self._check_there()
        with self._translated("extend a sandbox's lifetime"):
            await self._e2b.connect(wanted_s)  # it is never made shorter by that
        self.lifetime.extended(wanted_s)
        return self.lifetime.left_s

    # processes

    async def stop(self, name: str) -> None:
        """End a background process and its tree; see ``Sandbox``."""
        await self._ask({"do": "stop", "name": policy.check_process_name(name)}, part="processes")
        if name == PREVIEW:
            await self.lifetime.let_go()

    async def start_preview(self, *, timeout_s: float = 30.0) -> PreviewEndpoint:
        """Start the dev server, or return the running one; see ``Sandbox``."""
        async with self._previewing, self._in_use():
            endpoint = self.endpoint(DEV_PORT)
            if await answers_at(endpoint):
                self.lifetime.hold()
                return endpoint
            # the machine has no other listener, and E2B asks for the key at its own door
            argv = dev_server(DEV_PORT, host="0.0.0.0")
            await self._start(PREVIEW, argv, {"KODA_BASE": endpoint.base}, network=True)
            try:
                async with asyncio.timeout(timeout_s):
                    while not await answers_at(endpoint):
                        server = next((info for info in await self.processes() if info.name == PREVIEW), None)
                        if server is None or not server.running:
                            raise server_ended(server.exit_code if server else None, await self._last_lines())
                        await asyncio.sleep(_PROBE_PERIOD_S)
            except TimeoutError:
                lines = await self._last_lines()
                await self.stop(PREVIEW)
                raise late(timeout_s, lines) from None
            except ServerFailed:
                raise
            except BaseException:
                with suppress(KodaError):
                    await finish(self.stop(PREVIEW))
                raise
            self.lifetime.hold()  # whoever looks at the page makes no calls
            return endpoint

    def endpoint(self, port: int) -> PreviewEndpoint:
        """Where a port of the sandbox answers, with the token that E2B asks of whoever goes there."""
        return self._cloud.endpoint(self._e2b, port)

    async def reach(self, port: int, *, of: str) -> PreviewEndpoint:
        """Say where a port of the machine answers, whichever of its processes listens there; see ``Sandbox``."""
        self._check_there()
        return replace(self.endpoint(port), base="/")

    # its life

    async def pause(self) -> None:
        """Have E2B put it to sleep with its processes; the next use resumes it, unless E2B has lost it meanwhile.

        An optimisation and nothing else: whatever must not be lost is in a checkpoint before.
        """
        self._check_there()
        with self._translated("pause a sandbox"):
            await self._e2b.pause()
        self.lifetime.end()
        await self.lifetime.let_go()

    async def prepare(self) -> None:
        """Make a new sandbox ready: bring the helper in and look whether the template is one of ours.

        Raises:
            TemplateNotFound: TEMPLATE_NOT_FOUND, it holds no project, packages or programs.
        """
        async with self._in_use():
            await self._inside.bring()
        try:
            await self._ask({"do": "check", "project": "any" if self._template.own else "koda"})
        except TemplateNotFound as error:
            raise self._template.unusable(error.message) from None
        confined = await self.run(("true",))
        if confined.exit_code != 0:
            why = f"a command in it cannot be confined ({confined.stderr.strip()[-200:] or 'unshare fails'})"
            raise self._template.unusable(f"{why}: it needs util-linux and a user named `user`")
        self.ready()

    def ready(self) -> None:
        """Say that its project is there: it was made ready, now or by whoever made it."""
        self._living.filled()

    async def leave(self) -> None:
        """Let go of it; E2B ends it when its lifetime is over."""
        await super().leave()
        await self.lifetime.let_go()

    async def forget(self) -> None:
        """Take it for gone, without asking."""
        self._gone = True
        self._living.stop()
        await self.lifetime.let_go()

    async def destroy(self) -> None:
        """End every process and remove every file; may be called twice."""
        await self._destroy()

    # inside

    def _worked_lately(self) -> bool:
        return self._worked_at is not None and time.monotonic() - self._worked_at < self._cloud.trusted_s

    def _translated(self, doing: str) -> AbstractContextManager[None]:
        return self._cloud.translated(doing, sandbox_id=self._id, machine=self._e2b)

    async def _renew(self) -> None:
        with self._cloud.translated("renew a sandbox's lifetime", sandbox_id=self._id):
            self._e2b = await AsyncSandbox.connect(self.provider_id, self._terms.lifetime_s, **self._cloud.params)

    async def _run(self, walls: Sequence[str], program: str, *, timeout_s: float) -> CommandResult:
        out, errors = _Stream(), _Stream()
        async with self._in_use():
            began = time.monotonic()
            handle = await self._started(e2b_machine.command(walls), out, errors, timeout_s=timeout_s)
            waiting = asyncio.ensure_future(_exit_code(handle))
            ended = False
            try:
                async with asyncio.timeout(timeout_s):
                    with self._translated("run a command"):
                        exit_code = await asyncio.shield(waiting)
                ended = True
            except TimeoutError:
                await self._end(handle, waiting)
                ended = True
                raise self._late(program, out.kept, errors.kept, timeout_s=timeout_s) from None
            except SandboxNotFound:
                ended = True
                raise
            finally:
                if not ended:
                    await finish(self._end(handle, waiting))
        return self._ended(exit_code, out.kept, errors.kept, duration_s=time.monotonic() - began)

    async def _open_terminal(self, argv: Sequence[str], *, size: tuple[int, int], env: Mapping[str, str]) -> Terminal:
        use = AsyncExitStack()
        await use.enter_async_context(self._in_use())
        return await E2BTerminal.open(
            self._e2b,
            lambda line: self._walls(line, cwd=".", env=env, network=False),
            argv,
            size=PtySize(rows=size[0], cols=size[1]),
            translated=self._translated,
            leave=use.aclose,
        )

    async def _started(self, line: str, out: _Stream, errors: _Stream, *, timeout_s: float) -> AsyncCommandHandle[None]:
        """Start a command; where the caller gives up meanwhile, it is ended as soon as it is known."""

        async def start() -> AsyncCommandHandle[None]:
            with self._translated("start a command"):
                return await self._e2b.commands.run(
                    line,
                    background=True,
                    user="root",
                    cwd="/",
                    on_stdout=out.add,
                    on_stderr=errors.add,
                    timeout=timeout_s + _GRACE_S,
                    retain_output=False,
                )

        starting = asyncio.ensure_future(start())
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            with suppress(asyncio.CancelledError):
                await see_through(starting)
            if not starting.cancelled() and starting.exception() is None:
                handle = starting.result()
                await finish(self._end(handle, asyncio.ensure_future(_exit_code(handle))))
            raise

    async def _end(self, handle: AsyncCommandHandle[None], waiting: asyncio.Future[int]) -> None:
        """End a command with all that it started, and wait until it is over.

        E2B kills one process and does not wait for what dies with it, so the helper ends the process namespace. Where
        it cannot be asked, E2B's way must do.
        """
        with suppress(KodaError, TimeoutError):
            async with asyncio.timeout(_END_TIMEOUT_S):
                await self._inside.ask({"do": "end", "pid": handle.pid}, {}, part="processes")
        with suppress(KodaError), self._translated("end a command"):
            async with asyncio.timeout(_END_TIMEOUT_S):
                if not (await asyncio.wait({waiting}, timeout=_PROBE_PERIOD_S))[0]:
                    await handle.kill()
                await asyncio.wait({waiting})
        if not waiting.cancel() and not waiting.cancelled():
            waiting.exception()  # it has been told, or does not matter any more

    def _walls(self, argv: Sequence[str], *, cwd: str, env: Mapping[str, str], network: bool) -> list[str]:
        return e2b_machine.confined(argv, cwd=cwd, env=env, pids=self._terms.pids, network=network)

    async def _ask(
        self,
        question: Header,
        files: Mapping[str, bytes] | None = None,
        *,
        part: Literal["files", "processes"] = "files",
    ) -> tuple[Header, dict[str, bytes]]:
        async with self._in_use():
            return await self._inside.ask(question, files or {}, part=part)

    def _check_there(self) -> None:
        if self._gone:
            raise not_found(self._id)
        self._check_held()

    @asynccontextmanager
    async def _in_use(self) -> AsyncGenerator[None]:
        """Hold it open, and note whether it still worked at the end."""
        self._check_there()
        try:
            async with self.lifetime.used():
                yield
        except SandboxNotFound:
            self._worked_at = None
            self._living.stop()
            raise
        self._worked_at = time.monotonic()


class _Stream:
    """One output of a command, as it arrives; endless output is slowed down, so that it costs this program little."""

    def __init__(self) -> None:
        self.kept = Kept(head_bytes=OUTPUT_BYTES // 2, tail_bytes=OUTPUT_BYTES // 2)
        self._burst = 0

    async def add(self, text: str) -> None:
        self.kept.add(text.encode("utf-8", "replace"))
        self._burst += len(text)
        if self._burst >= _BURST_CHARS:
            self._burst = 0
            await asyncio.sleep(_BURST_PAUSE_S)


async def _exit_code(handle: AsyncCommandHandle[None]) -> int:
    try:
        return (await handle.wait()).exit_code
    except e2b.CommandExitException as error:
        return error.exit_code if error.exit_code >= 0 else 137  # E2B writes -1 for one that a signal ended
