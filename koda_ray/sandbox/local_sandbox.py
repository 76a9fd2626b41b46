"""One sandbox of the local provider: its files through ``ProjectTree``, its processes through ``Confined``."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from koda_ray.errors import KodaError, NotFound, SandboxNotFound
from koda_ray.processes import family
from koda_ray.sandbox import policy
from koda_ray.sandbox.baits import BAITED
from koda_ray.sandbox.bare import Bare, free_port
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
from koda_ray.sandbox.decoys import DECOYS
from koda_ray.sandbox.doorway import Doors, write_address
from koda_ray.sandbox.holder import Hold
from koda_ray.sandbox.invocation import Invocation
from koda_ray.sandbox.isolation import GUEST, TERMINALS, Jail
from koda_ray.sandbox.kept import KeptOutput
from koda_ray.sandbox.lifecycle import Living, let_go
from koda_ray.sandbox.lifetime import checked_lifetime
from koda_ray.sandbox.local_processes import LocalProcesses
from koda_ray.sandbox.outcome import out_of_memory, timed_out
from koda_ray.sandbox.preview import DEV_PORT, PREVIEW, answers, dev_server, forwarded, late, listen, server_ended
from koda_ray.sandbox.process import Confined
from koda_ray.sandbox.reading import TreeReader
from koda_ray.sandbox.record import Record
from koda_ray.sandbox.refused import LinksOut, note, note_end, noted
from koda_ray.sandbox.taken import nameless
from koda_ray.sandbox.terminal import CONTROLLING, LocalTerminal, open_terminal
from koda_ray.sandbox.tree import DiskLimit, ProjectTree
from koda_ray.sandbox.triggers import TRIGGERS
from koda_ray.sandbox.watching import watch
from koda_ray.sandbox.way_out import WayOut

__all__ = ["OUTPUT_BYTES", "LocalSandbox"]

OUTPUT_BYTES = 256 * 1024
"""How much of each of a command's outputs is kept: the first half and the last half."""

_OUTPUT = KeptOutput(head_bytes=OUTPUT_BYTES // 2, tail_bytes=OUTPUT_BYTES // 2)
_BACKGROUND = KeptOutput(tail_bytes=256 * 1024, merged=True)
_PROBE_PERIOD_S = 0.03
_LOOK_S = 1.0

T = TypeVar("T")


class LocalSandbox:
    """A project directory and isolated processes in it; made by ``LocalProvider``.

    Args:
        record: Who it is.
        directory: Its folder on this machine.
        walls: What is around each of its processes.
        way_out: What commands that ask for the network may use, and the hosts that they may name.
        destroy: Removes it.
        hold: Has a process of this machine hold what is kept.
    """

    def __init__(
        self,
        record: Record,
        *,
        directory: Path,
        walls: Jail | Bare,
        way_out: WayOut,
        destroy: Callable[[], Awaitable[None]],
        hold: Hold,
    ) -> None:
        disk, limits = directory / "disk", walls.limits
        self.record = record
        self.way_out = way_out
        self._directory = directory
        self._walls = walls
        self._destroy = destroy
        self._hold = hold
        self._named: dict[str, Confined] = {}
        self._closed = False
        self._previewing = asyncio.Lock()
        self._doors = Doors(directory, sockets=Path(record.preview_socket).parent)
        self._living = Living()
        self._living.filled()
        self._links_out = LinksOut(record.id)
        self._tree = ProjectTree(
            disk / "project",
            stage=disk / "stage",
            owner=record.user,
            disk=DiskLimit(
                size_bytes=(size := limits.disk_size(record.disk)),
                words=f"{size >> 20} MB, SANDBOX_DISK_MB",
                counted=record.disk != "tmpfs",
            ),
            filled=self._filled,
        )
        self._besides = tuple(TreeReader(disk / name) for name in (TERMINALS, BAITED, TRIGGERS, DECOYS))
        self._processes = LocalProcesses(
            record, disk=disk, walls=walls, way_out=way_out, filled=self._filled, check_open=self._check_open
        )

    @property
    def id(self) -> str:
        """The id that it was made under, enough to connect again."""
        return self.record.id

    @property
    def provider_id(self) -> str:
        """What it is at its provider; see ``Sandbox``."""
        return str(self._directory)

    @property
    def provider(self) -> str:
        """The provider's name."""
        return "local"

    @property
    def state(self) -> SandboxState:
        """Where it is in its life; see ``Sandbox``."""
        return self._living.state

    async def is_alive(self) -> bool:
        """Whether commands and files still work."""
        alive = (self._directory / "sandbox.json").exists()
        if not alive:
            self._living.stop()
        return alive

    async def extend(self, lifetime_s: float) -> None:
        """Nobody ends it by itself here; see ``Sandbox``."""
        checked_lifetime(lifetime_s)
        await self._check_alive()

    # files

    async def write_files(self, files: Mapping[str, bytes]) -> None:
        """Write files in one round trip, each atomically; see ``Sandbox``."""
        await self._file_work(lambda: self._tree.write_files(files))

    async def read_file(self, path: str) -> bytes:
        """Read a file; see ``Sandbox``."""
        found = await self._file_work(lambda: self._tree.read_files([path]))
        return next(iter(found.values()))

    async def read_files(self, paths: Sequence[str], *, most_bytes: int | None = None) -> dict[str, bytes]:
        """Read several files in one round trip; see ``Sandbox``."""
        return await self._file_work(lambda: self._tree.read_files(paths, most_bytes=most_bytes))

    async def list_files(self, path: str = ".", *, recursive: bool = False) -> list[FileEntry]:
        """List a directory; see ``Sandbox``."""
        outside: list[str] = []
        work = partial(self._tree.list_files, path, recursive=recursive, outside=outside.append)
        found = await self._file_work(work)
        self._links_out.left_out(outside)
        return found

    async def remove(self, path: str) -> None:
        """Remove a file or directory; see ``Sandbox``."""
        await self._file_work(lambda: self._tree.remove(path))

    async def watch(self, path: str = ".") -> AsyncGenerator[tuple[FileChange, ...]]:
        """Tell which files change; see ``Sandbox``."""
        async with aclosing(watch(self._tree, path, in_thread=self._file_work)) as batches:
            async for batch in batches:
                await self._check_alive()  # the files of a destroyed one are no changes
                yield batch

    async def snapshot(
        self, *, known: Mapping[str, FileStamp] | None = None, most_bytes: int | None = None
    ) -> Snapshot:
        """Collect the project's files for a checkpoint; see ``Sandbox``."""
        found = await self._file_work(lambda: self._tree.snapshot(known, most_bytes=most_bytes))
        self._links_out.skipped(found.skipped)
        return found

    async def restore(
        self,
        files: Mapping[str, bytes],
        *,
        modes: Mapping[str, int] | None = None,
        folders: Sequence[str] = (),
        spared: Sequence[str] | None = (),
    ) -> int:
        """Make the project's files exactly these; see ``Sandbox``."""
        work = partial(self._tree.restore, files, modes=modes, folders=folders, spared=spared)
        return (await self._file_work(work)).written_bytes

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

        Raises:
            CommandBlocked: COMMAND_BLOCKED, the command policy.
            CommandTimeout: TIMEOUT, after its whole process tree was ended.
            NotFound: FILE_NOT_FOUND, ``cwd`` is not there.
            QuotaExceeded: QUOTA_EXCEEDED, it failed because a limit was reached.
            SandboxNotFound: SANDBOX_NOT_FOUND, also when the sandbox was destroyed meanwhile.
        """
        self._check_command(argv)
        with self._living.work():
            return await self._run(argv, timeout_s=timeout_s, cwd=cwd, env=env or {}, network=network)

    async def _run(
        self, argv: Sequence[str], *, timeout_s: float, cwd: str, env: Mapping[str, str], network: bool
    ) -> CommandResult:
        name = await self._file_work(lambda: self._tree.check_directory(cwd)) if cwd != "." else "."
        kills = self._processes.ended_for_memory()
        process = await self._processes.begin(Invocation(argv=argv, cwd=name, env=env), kept=_OUTPUT, network=network)
        try:
            async with asyncio.timeout(timeout_s):
                exit_code = await process.wait()
        except TimeoutError:
            await process.kill()
            await self._check_alive()
            self._processes.check_exceeded(process)
            note(self.id, "time", timeout_s=timeout_s)
            said = process.stderr.text() or process.stdout.text()
            raise timed_out(argv[0], timeout_s=timeout_s, said=said) from None
        finally:
            if process.exit_code is None:
                await process.kill()
            self._processes.forget(process)
            self._processes.note_counts()
            truncated = process.stdout.truncated or process.stderr.truncated
            note_end(self.id, exit_code=process.exit_code or 0, truncated=truncated)
        await self._check_alive()
        self._processes.check_exceeded(process)
        if exit_code != 0 and self._processes.ended_for_memory() > kills:
            raise out_of_memory(self._walls.limits.memory_bytes)
        return CommandResult(
            exit_code=exit_code,
            stdout=process.stdout.text(),
            stderr=process.stderr.text(),
            duration_s=process.duration_s,
            truncated=truncated,
        )

    async def start(
        self, name: str, argv: Sequence[str], *, env: Mapping[str, str] | None = None, network: bool = False
    ) -> ProcessInfo:
        """Start a background process; it ends with this process, ``stop`` or the sandbox. See ``Sandbox``."""
        policy.check_process_name(name)
        self._check_command(argv)
        return await self.launch(name, Invocation(argv=argv, env=env or {}), network=network)

    async def launch(self, name: str, called: Invocation, *, network: bool = False) -> ProcessInfo:
        """Start a background process as it is called, in place of one of that name."""
        await self.stop(name)
        process = await self._processes.begin(called, kept=_BACKGROUND, network=network)
        self._named[name] = process
        await asyncio.to_thread(write_address, self._directory, name, process.pid)
        return _info(name, process)

    async def processes(self) -> list[ProcessInfo]:
        """List the background processes that this process started, the dev server (``preview``) among them."""
        self._processes.note_counts()
        return [_info(name, process) for name, process in sorted(self._named.items())]

    async def stop(self, name: str) -> None:
        """End a background process and its tree; see ``Sandbox``."""
        process = self._named.pop(name, None)
        if process is not None:
            self._processes.note_counts()  # what it offers is there until it ends
            await process.kill()
            self._processes.forget(process)
            self._processes.note_counts()

    async def output(self, name: str, *, max_bytes: int = 65536) -> str:
        """Read the end of a background process's output and errors; see ``Sandbox``."""
        process = self._named.get(name)
        if process is None:
            raise NotFound(
                f"there is no background process {name[:80]!r}; name one that there is "
                f"({', '.join(self._named) or 'none'}), or start it"
            )
        data = process.stdout.text().encode()
        return data[-max_bytes:].decode("utf-8", "ignore") if max_bytes > 0 else ""

    async def ended(self, name: str) -> None:
        """Wait until a background process with all that it started, or the sandbox, has ended."""
        process = self._named.get(name)
        while process is not None and await self.is_alive():
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_S):
                    await process.wait()
                return
            self._processes.note_counts()

    async def start_kept(self, name: str, argv: Sequence[str], *, network: bool) -> None:
        """Start what this process shall hold, with its way out."""
        self.way_out.tend()
        await self.start(name, argv, network=network)

    async def keep(self, name: str, argv: Sequence[str], *, network: bool = False) -> None:
        """Start a background process that outlives this program, in the hands of a holder; see ``Sandbox``."""
        policy.check_process_name(name)
        self._check_command(argv)
        await self._check_alive()
        await self._hold(name, argv, network)

    async def terminal(
        self, argv: Sequence[str], *, rows: int = 24, columns: int = 80, env: Mapping[str, str] | None = None
    ) -> Terminal:
        """Run a command with a terminal of its own; see ``Sandbox``."""
        self._check_command(argv)
        ours, theirs = open_terminal(rows=rows, columns=columns)
        try:
            called = Invocation(argv=[*CONTROLLING, *argv], env=env or {})
            process = await self._processes.begin(called, kept=KeptOutput(merged=True), terminal=theirs)
        except BaseException:
            os.close(ours)
            raise
        finally:
            os.close(theirs)

        async def end() -> None:
            await process.kill()
            self._processes.forget(process)
            self._processes.note_counts()

        return LocalTerminal(ours, end)

    async def start_preview(self, *, timeout_s: float = 30.0) -> PreviewEndpoint:
        """Start the dev server, or return the running one; see ``Sandbox``."""
        path = self.record.preview_socket
        endpoint = PreviewEndpoint(socket_path=path)
        async with self._previewing:
            await self._check_open()
            if await answers(path):
                return endpoint
            await self.stop(PREVIEW)
            listening = await asyncio.to_thread(listen, path)
            try:
                fd = listening.fileno()
                script = "/opt/koda/forward.mjs" if isinstance(self._walls, Jail) else str(GUEST / "forward.mjs")
                port = DEV_PORT if isinstance(self._walls, Jail) else free_port()
                argv = forwarded(dev_server(port), fd=fd, port=port, script=script)
                called = Invocation(argv=argv, env={"KODA_BASE": endpoint.base}, pass_fds=(fd,))
                await self.launch(PREVIEW, called)
            finally:
                listening.close()
            process = self._named[PREVIEW]
            try:
                async with asyncio.timeout(timeout_s):
                    while not await answers(path):
                        if process.exit_code is not None:
                            await process.wait()
                            await self._check_alive()
                            raise server_ended(process.exit_code, _last_lines(process))
                        await asyncio.sleep(_PROBE_PERIOD_S)
            except TimeoutError:
                await self.stop(PREVIEW)
                await self._check_alive()
                raise late(timeout_s, _last_lines(process)) from None
            except BaseException:
                await self.stop(PREVIEW)
                raise
            return endpoint

    async def reach(self, port: int, *, of: str) -> PreviewEndpoint:
        """Say where a port of a background process answers; see ``Sandbox``."""
        await self._check_open()
        if isinstance(self._walls, Bare):
            return PreviewEndpoint(url=f"http://127.0.0.1:{port}", base="/")
        return PreviewEndpoint(socket_path=await self._doors.path(port, of=policy.check_process_name(of)), base="/")

    async def close(self) -> None:
        """End what was started through this object, and do nothing more; files stay, for whoever connects next."""
        self._closed = True
        await self._doors.close()
        self._named.clear()
        await self._processes.close()

    def forget_socket(self) -> None:
        """Remove the folder of the preview's socket, where that lies elsewhere."""
        self.record.forget_socket(self._directory)

    async def destroy(self) -> None:
        """End every process and remove every file; may be called twice."""
        await self._destroy()

    # inside

    async def _file_work(self, work: Callable[[], T]) -> T:
        if self._closed:
            await self._check_open()
        try:
            with noted(self.id):
                return await asyncio.to_thread(work)
        except (KodaError, OSError):
            await self._check_alive()  # that it is gone explains any error better
            raise

    def _check_command(self, argv: Sequence[str]) -> None:
        with noted(self.id):
            check_command(argv, egress=self.way_out.rules)

    def _filled(self) -> tuple[int, int]:
        """Count the bytes and the files on disk of all that it may fill; blocks."""
        held = nameless(
            family(self._processes.pids()), self._tree.device
        )  # first: what loses its name meanwhile counts once
        size, entries = self._tree.usage()
        for beside in self._besides:
            with suppress(SandboxNotFound):  # one that an older koda_ray made has no such place
                more = beside.usage()
                size, entries = size + more[0], entries + more[1]
        return size + sum(held.values()), entries + len(held)

    async def _check_open(self) -> None:
        await self._check_alive()
        if self._closed:
            raise let_go(self.id)

    async def _check_alive(self) -> None:
        if not await self.is_alive():
            raise SandboxNotFound(
                f"the sandbox {self.id} is gone; make another and restore the last checkpoint into it",
                context={"sandbox_id": self.id},
            )


def _info(name: str, process: Confined) -> ProcessInfo:
    return ProcessInfo(name=name, pid=process.pid, running=process.exit_code is None, exit_code=process.exit_code)


def _last_lines(process: Confined) -> str:
    return process.stdout.text()[-1500:].strip() or "none"
