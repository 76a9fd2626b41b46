"""One sandbox of the Docker provider: asks the container's first process for everything (``first_process``)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from koda_ray.cancellation import finish
from koda_ray.errors import KodaError, SandboxError
from koda_ray.sandbox import policy
from koda_ray.sandbox.base import (
    CommandResult,
    FileChange,
    FileEntry,
    FileStamp,
    PreviewEndpoint,
    ProcessInfo,
    SandboxState,
    Snapshot,
    Terminal,
)
from koda_ray.sandbox.command_policy import check_command
from koda_ray.sandbox.differing import send_differing
from koda_ray.sandbox.docker_answers import (
    ToldEnd,
    ToldFile,
    ToldList,
    ToldOutput,
    ToldProcess,
    ToldProcesses,
    ToldRefusals,
    ToldSurvey,
    believed,
)
from koda_ray.sandbox.docker_folders import container_name
from koda_ray.sandbox.docker_way_in import WayIn, answer_or_error
from koda_ray.sandbox.frames import Message, receive_bytes, receive_object, send
from koda_ray.sandbox.holder import Hold
from koda_ray.sandbox.isolation import base_environment, checked_environment
from koda_ray.sandbox.lifetime import checked_lifetime
from koda_ray.sandbox.limits import ResourceLimits
from koda_ray.sandbox.link_terminal import LinkTerminal
from koda_ray.sandbox.node import NodeRuntime
from koda_ray.sandbox.outcome import out_of_memory, timed_out
from koda_ray.sandbox.preview import DEV_PORT, PREVIEW, answers, dev_server, late, server_ended
from koda_ray.sandbox.reading import MAX_READ_BYTES
from koda_ray.sandbox.record import Record
from koda_ray.sandbox.refused import LinksOut, note, note_end, note_told, noted
from koda_ray.sandbox.relay import Relay, Relays
from koda_ray.sandbox.terminal import check_size
from koda_ray.sandbox.told import checked_modes, checked_skips
from koda_ray.sandbox.watching import checked_changes
from koda_ray.sandbox.way_out import WayOut

__all__ = ["OUTPUT_BYTES", "DockerSandbox"]

OUTPUT_BYTES = 256 * 1024
"""How much of each of a command's outputs is kept: the first half and the last half."""

_NODE = NodeRuntime(Path("/usr/bin/node"), "/usr/bin/node", ())
_END_TIMEOUT_S = 25.0
_OPEN_TIMEOUT_S = 60.0
_PROBE_PERIOD_S = 0.05
_LAST_LINES = 1500


class DockerSandbox:
    """A container with a project in it; made by ``DockerProvider``.

    Args:
        record: Who it is.
        way_in: The way to its first process.
        limits: What it may use.
        way_out: What commands that ask for the network may use, and the hosts that they may name.
        destroy: Removes it.
        hold: Has a process of this machine hold what is kept, with its way out.
    """

    def __init__(
        self,
        record: Record,
        *,
        way_in: WayIn,
        limits: ResourceLimits,
        way_out: WayOut,
        destroy: Callable[[], Awaitable[None]],
        hold: Hold,
    ) -> None:
        self.record = record
        self.way_out = way_out
        self._way_in = way_in
        self._limits = limits
        self._destroy = destroy
        self._hold_kept = hold
        self._holding: dict[str, asyncio.Task[None]] = {}
        self._previewing = asyncio.Lock()
        self._links_out = LinksOut(record.id)
        self._relay = Relay(record.preview_socket, way_in.link, port=DEV_PORT)
        self._relays = Relays(os.path.dirname(record.preview_socket), way_in.link)

    @property
    def id(self) -> str:
        """The id that it was made under, enough to connect again."""
        return self.record.id

    @property
    def provider_id(self) -> str:
        """What it is at its provider; see ``Sandbox``."""
        return self.record.container or container_name(self.record.id)

    @property
    def provider(self) -> str:
        """The provider's name."""
        return "docker"

    @property
    def state(self) -> SandboxState:
        """Where it is in its life; see ``Sandbox``."""
        return self._way_in.living.state

    async def is_alive(self) -> bool:
        """Whether commands and files still work."""
        return await self._way_in.is_alive()

    async def extend(self, lifetime_s: float) -> None:
        """Nobody ends it by itself here; see ``Sandbox``."""
        checked_lifetime(lifetime_s)
        await self._way_in.check_alive()

    # files

    async def write_files(self, files: Mapping[str, bytes]) -> None:
        """Write files in one round trip, each atomically; see ``Sandbox``."""
        for path in files:
            self._path(policy.storable, path)
        await self._put("write", files)

    async def read_file(self, path: str) -> bytes:
        """Read a file; see ``Sandbox``."""
        found = await self.read_files([path])
        return next(iter(found.values()))

    async def read_files(self, paths: Sequence[str], *, most_bytes: int | None = None) -> dict[str, bytes]:
        """Read several files in one round trip; see ``Sandbox``."""
        names = list(dict.fromkeys(self._path(policy.readable, path) for path in paths))
        files = _Files(most=MAX_READ_BYTES if most_bytes is None else min(MAX_READ_BYTES, most_bytes))
        async with self._way_in.exchange("read", {"paths": names, "most_bytes": most_bytes}) as (reader, _):
            while not (answer := answer_or_error(await receive_object(reader))).get("end"):
                await files.take(answer, reader)
        if list(files.found) != names:
            raise SandboxError(
                f"the sandbox {self.id} sent {sorted(files.found)[:5]}, other files than the {len(names)} that it was "
                "asked for; make another sandbox and restore the last checkpoint into it"
            )
        return files.found

    async def list_files(self, path: str = ".", *, recursive: bool = False) -> list[FileEntry]:
        """List a directory; see ``Sandbox``."""
        answer = await self._way_in.ask("list", {"path": self._path(policy.readable, path), "recursive": recursive})
        listed = believed(ToldList, answer)
        self._links_out.left_out(listed.outside)
        return listed.files()

    async def remove(self, path: str) -> None:
        """Remove a file or directory; see ``Sandbox``."""
        await self._way_in.ask("remove", {"path": self._path(policy.storable, path)})

    async def watch(self, path: str = ".") -> AsyncGenerator[tuple[FileChange, ...]]:
        """Tell which files change, as the kernel inside says; see ``Sandbox``."""
        request: Message = {"path": self._path(policy.readable, path)}
        async with self._way_in.exchange("watch", request, timeout_s=None) as (reader, writer):
            while True:
                answer = answer_or_error(await receive_object(reader))
                writer.write(b".")  # the next one is wanted, and not made before that
                yield checked_changes(answer.get("changes"))

    async def snapshot(
        self, *, known: Mapping[str, FileStamp] | None = None, most_bytes: int | None = None
    ) -> Snapshot:
        """Collect the project's files for a checkpoint; see ``Sandbox``."""
        stamps = {path: (stamp.size_bytes, stamp.changed_ns, stamp.inode) for path, stamp in (known or {}).items()}
        most = self._limits.tmpfs_bytes
        files = _Files(most=most if most_bytes is None else min(most, most_bytes))
        async with self._way_in.exchange("snapshot", {"known": stamps, "most_bytes": most_bytes}) as (reader, _):
            while "stamps" not in (answer := answer_or_error(await receive_object(reader))):
                await files.take(answer, reader)
        told = believed(ToldSurvey, answer)
        found, skipped = told.found(), checked_skips(told.skipped)
        self._links_out.skipped(skipped)
        return Snapshot(
            stamps=found,
            changed={path: data for path, data in files.found.items() if path in found},
            removed=tuple(sorted(set(known or {}) - set(found))),
            skipped=skipped,
            modes=checked_modes(told.modes, found),
            folders=tuple(told.folders),
        )

    async def restore(
        self,
        files: Mapping[str, bytes],
        *,
        modes: Mapping[str, int] | None = None,
        folders: Sequence[str] = (),
        spared: Sequence[str] | None = (),
    ) -> int:
        """Make the project's files exactly these; only what differs travels. See ``Sandbox``."""
        told: Message = {
            "modes": dict(modes or {}),
            "folders": list(folders),
            "spared": None if spared is None else list(spared),
        }

        async def send(some: Mapping[str, bytes], there: Mapping[str, str]) -> object:
            return (await self._put("match", some, {"there": there, **told})).get("missing")

        return await send_differing({self._path(policy.storable, path): data for path, data in files.items()}, send)

    # processes

    async def run(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float = 30.0,
        cwd: str = ".",
        env: Mapping[str, str] | None = None,
        network: bool = False,
    ) -> CommandResult:
        """Run a command to its end; see ``Sandbox``.

        All commands share the container's loopback, so while one runs that may use the network, the others could use
        its way out as well; it is gone as soon as none does.

        Raises:
            CommandBlocked: COMMAND_BLOCKED, the command policy.
            CommandTimeout: TIMEOUT, after its whole process tree was ended.
            NotFound: FILE_NOT_FOUND, ``cwd`` is not there.
            QuotaExceeded: QUOTA_EXCEEDED, it failed because a limit was reached.
            SandboxNotFound: SANDBOX_NOT_FOUND, also when the sandbox was destroyed meanwhile.
        """
        self._check_command(argv)
        request: Message = {
            "argv": list(argv),
            "cwd": self._path(policy.readable, cwd),
            "env": self._environment(env),
            "kept_bytes": OUTPUT_BYTES,
        }
        with self._way_in.living.work():
            await self._hear()
            async with self._egress(network) as socket:
                request["egress"] = socket
                async with self._way_in.exchange("run", request, timeout_s=None) as (reader, writer):
                    answer, in_time = await _outcome(reader, writer, timeout_s=timeout_s)
        done = believed(ToldEnd, answer)
        self._note_counts(done)
        note_end(self.id, exit_code=done.exit_code, truncated=done.truncated)
        if not in_time:
            note(self.id, "time", timeout_s=timeout_s)
            raise timed_out(argv[0], timeout_s=timeout_s, said=done.stderr or done.stdout)
        if done.exit_code != 0 and done.out_of_memory:
            raise out_of_memory(self._limits.memory_bytes)
        return CommandResult(
            exit_code=done.exit_code,
            stdout=done.stdout,
            stderr=done.stderr,
            duration_s=done.duration_s,
            truncated=done.truncated,
        )

    async def start(
        self, name: str, argv: Sequence[str], *, env: Mapping[str, str] | None = None, network: bool = False
    ) -> ProcessInfo:
        """Start a background process; it ends with ``stop`` or the sandbox. See ``Sandbox``."""
        policy.check_process_name(name)
        self._check_command(argv)
        if not (network and self.way_out.leads):
            return await self._start_named(name, argv, env=env)
        return await self._begin(name, lambda socket: self._start_named(name, argv, env=env, egress=socket))

    async def _begin(self, name: str, begin: Callable[[str | None], Awaitable[ProcessInfo]]) -> ProcessInfo:
        """Begin what has a way out, which is held open until it is gone or this owner."""
        await self._let_go(name)
        started: asyncio.Future[ProcessInfo] = asyncio.get_running_loop().create_future()
        holding = asyncio.create_task(self._hold(name, begin, started), name=f"network-of-{self.id}")
        self._holding[name] = holding
        try:
            await asyncio.wait({holding, started}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            holding.cancel()
            await asyncio.wait({holding})
            raise
        if not started.done():
            await holding
        return started.result()

    async def processes(self) -> list[ProcessInfo]:
        """List the background processes, whoever started them, the dev server (``preview``) among them."""
        answer = believed(ToldProcesses, await self._way_in.ask("processes", {}))
        self._note_counts(answer)
        return answer.infos()

    async def stop(self, name: str) -> None:
        """End a background process and its tree; see ``Sandbox``."""
        if name == PREVIEW:
            await self._relay.close()
        self._note_counts(believed(ToldRefusals, await self._way_in.ask("stop", {"name": name})))

    async def output(self, name: str, *, max_bytes: int = 65536) -> str:
        """Read the end of a background process's output and errors; see ``Sandbox``."""
        return believed(ToldOutput, await self._way_in.ask("output", {"name": name, "max_bytes": max_bytes})).output

    async def keep(self, name: str, argv: Sequence[str], *, network: bool = False) -> None:
        """Start a background process, which outlives whoever starts it anyway; see ``Sandbox``.

        Its way out would not: where it has one, a holder keeps that open until the process or the sandbox ends.
        """
        policy.check_process_name(name)
        self._check_command(argv)
        if network and self.way_out.leads:
            await self._way_in.check_alive()
            await self._hold_kept(name, argv, network)
        elif not await self._runs(name):
            await self._start_named(name, argv, env=None)

    async def start_kept(self, name: str, argv: Sequence[str], *, network: bool) -> None:
        """Start what this process shall hold; one that runs gets a new way out in place of its dead holder's."""
        self.way_out.tend()
        if not await self._runs(name):
            await self.start(name, argv, network=network)
        elif network and self.way_out.leads:
            await self._begin(name, lambda socket: self._lead(name, socket))

    async def ended(self, name: str) -> None:
        """Wait until a background process that has its way out from here has ended, or the sandbox has."""
        holding = self._holding.get(name)
        if holding is not None:
            await asyncio.wait({holding})

    async def terminal(
        self, argv: Sequence[str], *, rows: int = 24, columns: int = 80, env: Mapping[str, str] | None = None
    ) -> Terminal:
        """Run a command with a terminal of its own; see ``Sandbox``."""
        self._check_command(argv)
        check_size(rows=rows, columns=columns)
        request: Message = {
            "op": "terminal",
            "argv": list(argv),
            "rows": rows,
            "columns": columns,
            "env": self._environment(env),
        }
        await self._hear()
        reader, writer = await self._way_in.connection()
        try:
            async with asyncio.timeout(_OPEN_TIMEOUT_S):
                await send(writer, request)
                with noted(self.id):
                    answer_or_error(await receive_object(reader))
        except BaseException as error:
            await self._way_in.link.release(writer)
            if isinstance(error, TimeoutError):
                await self._way_in.check_alive()
                raise SandboxError(
                    f"the sandbox {self.id} opened no terminal within {_OPEN_TIMEOUT_S:g} s: what runs in it may leave "
                    "it no time; try again, or destroy it and make another",
                    retryable=True,
                ) from None
            if isinstance(error, EOFError | OSError):
                await self._way_in.check_ending()
                raise SandboxError(f"the sandbox {self.id} broke off 'terminal' ({error}); try again") from error
            raise
        return LinkTerminal(reader, writer, self._way_in.link.release)

    async def start_preview(self, *, timeout_s: float = 30.0) -> PreviewEndpoint:
        """Start the dev server, or return the running one; see ``Sandbox``."""
        endpoint = PreviewEndpoint(socket_path=self.record.preview_socket)
        async with self._previewing:
            await self._way_in.check_alive()
            await self._relay.open()
            if await answers(endpoint.socket_path):
                return endpoint
            try:
                await self._start_named(PREVIEW, dev_server(), env={"KODA_BASE": endpoint.base})
                async with asyncio.timeout(timeout_s):
                    while not await answers(endpoint.socket_path):
                        server = next((one for one in await self.processes() if one.name == PREVIEW), None)
                        if server is None or not server.running:
                            lines = await self._last_lines()
                            code = None if server is None else server.exit_code
                            await self._relay.close()
                            raise server_ended(code, lines)
                        await asyncio.sleep(_PROBE_PERIOD_S)
            except TimeoutError:
                lines = await self._last_lines()
                await self.stop(PREVIEW)
                raise late(timeout_s, lines) from None
            except asyncio.CancelledError:
                await finish(self.stop(PREVIEW))
                raise
            return endpoint

    async def reach(self, port: int, *, of: str) -> PreviewEndpoint:
        """Say where a port of the container answers, whichever of its processes listens there; see ``Sandbox``."""
        await self._way_in.check_alive()
        return PreviewEndpoint(socket_path=await self._relays.path(port), base="/")

    async def greet(self, *, timeout_s: float) -> None:
        """Wait until the first process answers.

        Raises:
            SandboxNotFound: SANDBOX_NOT_FOUND, it ended, with why.
            SandboxError: PROVIDER_ERROR, it does not answer.
        """
        async with asyncio.timeout(timeout_s):
            await self._way_in.ask("hello", {})
        self._way_in.living.filled()

    async def close(self) -> None:
        """Leave the container to whoever connects next, without a way out until then."""
        if self._way_in.trace is not None:
            self._way_in.trace.close()
        await self._way_in.link.close()  # first: what is opened meanwhile finds it closed, and closes itself
        for name in tuple(self._holding):
            await self._let_go(name)
        await self.way_out.close()
        await self._relay.close()
        await self._relays.close()

    async def destroy(self) -> None:
        """End every process and remove every file; may be called twice."""
        await self._destroy()

    # inside

    def _path(self, rule: Callable[[str], str], path: str) -> str:
        with noted(self.id):
            return rule(path)

    async def _hear(self) -> None:
        if self._way_in.trace is not None:
            await self._way_in.trace.begin()

    def _note_counts(self, answer: ToldRefusals) -> None:
        for refused, times in answer.refused.items():
            note(self.id, refused, times=times)
        if read := self._way_in.decoys_read():
            note(self.id, "bait", times=read)
        for call, times in answer.calls.items():
            note(self.id, "call", call=call, times=times)
        if self._way_in.trace is not None:
            note_told(self.id, self._way_in.trace.told())

    async def _put(self, operation: str, files: Mapping[str, bytes], more: Message | None = None) -> Message:
        sizes = [(path, len(data)) for path, data in files.items()]
        if sum(size for _, size in sizes) > self._limits.tmpfs_bytes:
            raise SandboxError(
                f"{sizes[0][0]!r} and what comes with it could not be written: they are more than the sandbox's disk "
                f"holds ({self._limits.tmpfs_bytes >> 20} MB, SANDBOX_DISK_MB); nothing was changed. Write less, or "
                "raise the limit",
                code="WRITE_FAILED",
                context={"path": sizes[0][0], "reason": "disk_full"},
            )
        message: Message = {"files": sizes, **(more or {})}
        async with self._way_in.exchange(operation, message, list(files.values())) as (reader, _):
            return answer_or_error(await receive_object(reader))

    def _check_command(self, argv: Sequence[str]) -> None:
        with noted(self.id):
            check_command(argv, egress=self.way_out.rules)

    @asynccontextmanager
    async def _egress(self, network: bool) -> AsyncGenerator[str | None]:
        """Have the way out open for the block; yields its socket's name, None where there is none."""
        if not (network and self.way_out.leads):
            yield None
            return
        await self._way_in.check_alive()
        async with self.way_out.held() as path:
            yield os.path.basename(path)

    async def _hold(
        self,
        name: str,
        begin: Callable[[str | None], Awaitable[ProcessInfo]],
        started: asyncio.Future[ProcessInfo],
    ) -> None:
        """Begin a background process and keep its way out open until it is gone."""
        async with self._egress(True) as socket:
            info = await begin(socket)
            started.set_result(info)
            with suppress(KodaError):  # the sandbox, and with it the process, is gone
                request: Message = {"name": name, "pid": info.pid}
                async with self._way_in.exchange("wait", request, timeout_s=None) as (reader, _):
                    await receive_object(reader)

    async def _start_named(
        self, name: str, argv: Sequence[str], *, env: Mapping[str, str] | None, egress: str | None = None
    ) -> ProcessInfo:
        await self._hear()
        request: Message = {"name": name, "argv": list(argv), "env": self._environment(env), "egress": egress}
        return believed(ToldProcess, await self._way_in.ask("start", request)).info()

    async def _let_go(self, name: str) -> None:
        holding = self._holding.pop(name, None)
        if holding is not None:
            holding.cancel()
            await asyncio.wait({holding})

    async def _lead(self, name: str, socket: str | None) -> ProcessInfo:
        return believed(ToldProcess, await self._way_in.ask("lead", {"name": name, "egress": socket})).info()

    async def _runs(self, name: str) -> bool:
        return any(process.name == name and process.running for process in await self.processes())

    async def _last_lines(self) -> str:
        return (await self.output(PREVIEW))[-_LAST_LINES:].strip() or "none"

    def _environment(self, extra: Mapping[str, str] | None) -> dict[str, str]:
        return {**base_environment(_NODE, self._limits), **checked_environment(extra or {})}


class _Files:
    """Files as they come in, bounded together.

    Args:
        most: How many bytes they may have, as the inside counts too: more is a lie.
    """

    def __init__(self, *, most: int) -> None:
        self.found: dict[str, bytes] = {}
        self._left = most

    async def take(self, answer: Message, reader: asyncio.StreamReader) -> None:
        """Read the file that an answer announces."""
        announced = believed(ToldFile, answer)
        [data] = await receive_bytes(reader, [announced.size], most=self._left)
        self._left -= len(data)
        self.found[announced.path] = data


async def _outcome(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, timeout_s: float
) -> tuple[Message, bool]:
    """Wait for a command's outcome; past the time, or cancelled, have it ended first.

    Returns:
        The outcome, and whether it came in time.
    """
    answering = asyncio.create_task(receive_object(reader))
    try:
        await asyncio.wait({answering}, timeout=timeout_s)
        in_time = answering.done()
    finally:
        if not answering.done():
            writer.write(b"x")
            await asyncio.wait({answering}, timeout=_END_TIMEOUT_S)
            answering.cancel()
            await asyncio.wait({answering})
        if not answering.cancelled():
            answering.exception()  # looked at, also where the wait itself is cancelled
    if answering.cancelled():
        raise TimeoutError
    return answer_or_error(answering.result()), in_time
