"""One sandbox of the local provider: its files through ``ProjectTree``, its processes through ``Confined``."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from koda_ray.errors import CommandTimeout, KodaError, NotFound, QuotaExceeded, SandboxNotFound, ServerFailed
from koda_ray.sandbox import cgroup, policy, seccomp
from koda_ray.sandbox.bare import MARKER, Bare, free_port, new_mark
from koda_ray.sandbox.base import CommandResult, FileEntry, FileStamp, PreviewEndpoint, ProcessInfo, Snapshot
from koda_ray.sandbox.isolation import GUEST, Jail, launcher
from koda_ray.sandbox.limits import Limits
from koda_ray.sandbox.node import NodeRuntime
from koda_ray.sandbox.preview import DEV_PORT, PREVIEW, answers, dev_server, forwarded, listen
from koda_ray.sandbox.process import Confined
from koda_ray.sandbox.record import Record
from koda_ray.sandbox.strays import kill_marked
from koda_ray.sandbox.tree import ProjectTree
from koda_ray.sandbox.watchdog import Watchdog

__all__ = ["OUTPUT_BYTES", "LocalSandbox"]

OUTPUT_BYTES = 256 * 1024
"""How much of each of a command's outputs is kept: the first half and the last half."""

_BACKGROUND_BYTES = 256 * 1024
_PROBE_PERIOD_S = 0.03

T = TypeVar("T")


class LocalSandbox:
    """A project directory and isolated processes in it; made by ``LocalProvider``."""

    def __init__(
        self,
        record: Record,
        *,
        directory: Path,
        node_modules: Path,
        limits: Limits,
        node: NodeRuntime,
        isolated: bool,
        destroy: Callable[[], Awaitable[None]],
    ) -> None:
        disk = directory / "disk"
        self._record = record
        self._directory = directory
        self._limits = limits
        self._groups = tuple(map(Path, record.groups))
        self._destroy = destroy
        self._running: set[Confined] = set()
        self._named: dict[str, Confined] = {}
        self._exceeded: dict[Confined, str] = {}
        self._previewing = asyncio.Lock()
        self._tree = ProjectTree(
            disk / "project",
            stage=disk / "stage",
            owner=record.user,
            limit_note=f"{limits.disk_size(record.disk) >> 20} MB, SANDBOX_DISK_MB",
            quota_bytes=None if record.disk == "tmpfs" else limits.disk_bytes,
        )
        self._walls: Jail | Bare
        if isolated:
            self._walls = Jail(
                project=disk / "project",
                etc=directory / "etc",
                node_modules=node_modules,
                node=node,
                limits=limits,
                user=record.user,
            )
        else:
            self._walls = Bare(project=disk / "project", node=node, limits=limits)
        self._watchdog = Watchdog(
            limits,
            tree=None if record.disk == "tmpfs" else self._tree,
            watch_memory=not self._groups,
            pids=lambda: [process.pid for process in self._running if process.exit_code is None],
            exceeded=self._end_exceeding,
        )

    @property
    def id(self) -> str:
        """The provider's id, enough to connect again."""
        return self._record.id

    @property
    def provider(self) -> str:
        """The provider's name."""
        return "local"

    async def is_alive(self) -> bool:
        """Whether commands and files still work."""
        return (self._directory / "sandbox.json").exists()

    # files

    async def write_files(self, files: Mapping[str, bytes]) -> None:
        """Write files in one round trip, each atomically; see ``Sandbox``."""
        await self._file_work(lambda: self._tree.write_files(files))

    async def read_file(self, path: str) -> bytes:
        """Read a file; see ``Sandbox``."""
        found = await self._file_work(lambda: self._tree.read_files([path]))
        return next(iter(found.values()))

    async def read_files(self, paths: Sequence[str]) -> dict[str, bytes]:
        """Read several files in one round trip; see ``Sandbox``."""
        return await self._file_work(lambda: self._tree.read_files(paths))

    async def list_files(self, path: str = ".", *, recursive: bool = False) -> list[FileEntry]:
        """List a directory; see ``Sandbox``."""
        return await self._file_work(lambda: self._tree.list_files(path, recursive=recursive))

    async def remove(self, path: str) -> None:
        """Remove a file or directory; see ``Sandbox``."""
        await self._file_work(lambda: self._tree.remove(path))

    async def snapshot(self, *, known: Mapping[str, FileStamp] | None = None) -> Snapshot:
        """Collect the project's files for a checkpoint; see ``Sandbox``."""
        return await self._file_work(lambda: self._tree.snapshot(known))

    async def restore(self, files: Mapping[str, bytes]) -> None:
        """Make the project's files exactly these; see ``Sandbox``."""
        await self._file_work(lambda: self._tree.restore(files))

    # processes

    async def run(
        self, argv: Sequence[str], *, timeout_s: float = 30.0, cwd: str = ".", env: Mapping[str, str] | None = None
    ) -> CommandResult:
        """Run a command to its end; see ``Sandbox``.

        Raises:
            CommandBlocked: COMMAND_BLOCKED, the command policy.
            CommandTimeout: TIMEOUT, after its whole process tree was ended.
            NotFound: FILE_NOT_FOUND, ``cwd`` is not there.
            QuotaExceeded: QUOTA_EXCEEDED, it failed because a limit was reached.
            SandboxNotFound: SANDBOX_NOT_FOUND, also when the sandbox was destroyed meanwhile.
        """
        policy.check_command(argv)
        name = await self._file_work(lambda: self._tree.check_directory(cwd)) if cwd != "." else "."
        kills = cgroup.oom_kills(self._groups)
        process = await self._start(
            argv, cwd=name, env=env or {}, head_bytes=OUTPUT_BYTES // 2, tail_bytes=OUTPUT_BYTES // 2
        )
        try:
            async with asyncio.timeout(timeout_s):
                exit_code = await process.wait()
        except TimeoutError:
            await process.kill()
            await self._check_alive()
            self._check_exceeded(process)
            raise CommandTimeout(
                f"`{argv[0][:100]}` was ended with all that it started after {timeout_s:g} s; its last output was: "
                f"{(process.stderr.text() or process.stdout.text())[-500:].strip() or 'nothing'}",
                context={"timeout_s": timeout_s},
            ) from None
        finally:
            if process.exit_code is None:
                await process.kill()
            self._running.discard(process)
        await self._check_alive()
        self._check_exceeded(process)
        if exit_code != 0 and cgroup.oom_kills(self._groups) > kills:
            raise self._quota(f"memory: {self._limits.memory_bytes >> 20} MB are allowed")
        return CommandResult(
            exit_code=exit_code,
            stdout=process.stdout.text(),
            stderr=process.stderr.text(),
            duration_s=process.duration_s,
            truncated=process.stdout.truncated or process.stderr.truncated,
        )

    async def start(self, name: str, argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> ProcessInfo:
        """Start a background process; it ends with this process, ``stop`` or the sandbox. See ``Sandbox``."""
        policy.check_process_name(name)
        policy.check_command(argv)
        return await self._start_named(name, argv, env=env or {})

    async def processes(self) -> list[ProcessInfo]:
        """List the background processes that this process started, the dev server (``preview``) among them."""
        return [_info(name, process) for name, process in sorted(self._named.items())]

    async def stop(self, name: str) -> None:
        """End a background process and its tree; see ``Sandbox``."""
        process = self._named.pop(name, None)
        if process is not None:
            await process.kill()
            self._running.discard(process)

    async def output(self, name: str, *, max_bytes: int = 65536) -> str:
        """Read the end of a background process's output and errors; see ``Sandbox``."""
        process = self._named.get(name)
        if process is None:
            raise NotFound(
                f"there is no background process {name[:80]!r}; there are: {', '.join(self._named) or 'none'}"
            )
        data = process.stdout.text().encode()
        return data[-max_bytes:].decode("utf-8", "ignore") if max_bytes > 0 else ""

    async def start_preview(self, *, timeout_s: float = 30.0) -> PreviewEndpoint:
        """Start the dev server, or return the running one; see ``Sandbox``."""
        path = self._record.preview_socket
        endpoint = PreviewEndpoint(socket_path=path)
        async with self._previewing:
            await self._check_alive()
            if await answers(path):
                return endpoint
            await self.stop(PREVIEW)
            listening = await asyncio.to_thread(listen, path)
            try:
                fd = listening.fileno()
                script = "/opt/koda/forward.mjs" if isinstance(self._walls, Jail) else str(GUEST / "forward.mjs")
                port = DEV_PORT if isinstance(self._walls, Jail) else free_port()
                argv = forwarded(dev_server(port), fd=fd, port=port, script=script)
                await self._start_named(PREVIEW, argv, env={"KODA_BASE": endpoint.base}, pass_fds=(fd,))
            finally:
                listening.close()
            process = self._named[PREVIEW]
            try:
                async with asyncio.timeout(timeout_s):
                    while not await answers(path):
                        if process.exit_code is not None:
                            await process.wait()
                            await self._check_alive()
                            raise ServerFailed(
                                f"the dev server ended with code {process.exit_code}; "
                                f"its last lines: {_last_lines(process)}"
                            )
                        await asyncio.sleep(_PROBE_PERIOD_S)
            except TimeoutError:
                await self.stop(PREVIEW)
                await self._check_alive()
                raise ServerFailed(
                    f"the dev server did not answer within {timeout_s:g} s; its last lines: {_last_lines(process)}"
                ) from None
            except BaseException:
                await self.stop(PREVIEW)
                raise
            return endpoint

    async def close(self) -> None:
        """End the processes that were started through this object; the files stay, for whoever connects next."""
        await self._watchdog.close()
        self._named.clear()
        await asyncio.gather(*(process.kill() for process in tuple(self._running)))
        self._running.clear()

    def forget_socket(self) -> None:
        """Remove the folder of the preview's socket, where that lies elsewhere."""
        self._record.forget_socket(self._directory)

    async def destroy(self) -> None:
        """End every process and remove every file; may be called twice."""
        await self._destroy()

    # inside

    async def _file_work(self, work: Callable[[], T]) -> T:
        try:
            return await asyncio.to_thread(work)
        except (KodaError, OSError):
            await self._check_alive()  # that it is gone explains any error better
            raise

    async def _start_named(
        self, name: str, argv: Sequence[str], *, env: Mapping[str, str], pass_fds: Sequence[int] = ()
    ) -> ProcessInfo:
        await self.stop(name)
        process = await self._start(
            argv, cwd=".", env=env, pass_fds=pass_fds, merge=True, head_bytes=0, tail_bytes=_BACKGROUND_BYTES
        )
        self._named[name] = process
        return _info(name, process)

    async def _start(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        head_bytes: int,
        tail_bytes: int,
        pass_fds: Sequence[int] = (),
        merge: bool = False,
    ) -> Confined:
        await self._check_alive()
        walls = self._walls
        hard_disk = self._record.disk == "tmpfs"
        enter = cgroup.enter_files(self._groups)
        if isinstance(walls, Bare):
            mark = new_mark()
            line = launcher(
                walls.command(argv, cwd=cwd, env=env, mark=mark), groups=enter, limits=self._limits, hard_disk=hard_disk
            )
            process = Confined.start(
                lambda _: line,
                pass_fds=pass_fds,
                merge=merge,
                head_bytes=head_bytes,
                tail_bytes=tail_bytes,
                kill_strays=lambda: kill_marked(MARKER, mark),
            )
        else:
            seccomp_fd = seccomp.filter_fd()
            try:
                process = Confined.start(
                    lambda info_fd: launcher(
                        walls.command(argv, cwd=cwd, env=env, info_fd=info_fd, seccomp_fd=seccomp_fd),
                        groups=enter,
                        limits=self._limits,
                        hard_disk=hard_disk,
                    ),
                    pass_fds=pass_fds if seccomp_fd is None else (*pass_fds, seccomp_fd),
                    merge=merge,
                    head_bytes=head_bytes,
                    tail_bytes=tail_bytes,
                )
            finally:
                if seccomp_fd is not None:
                    os.close(seccomp_fd)
        self._running.add(process)
        self._watchdog.wake()
        return process

    async def _end_exceeding(self, reason: str) -> None:
        for process in tuple(self._running):
            if process.exit_code is None:
                self._exceeded[process] = reason
                with suppress(KodaError):
                    await process.kill()

    def _check_exceeded(self, process: Confined) -> None:
        reason = self._exceeded.pop(process, None)
        if reason is not None:
            raise self._quota(reason)

    def _quota(self, reason: str) -> QuotaExceeded:
        return QuotaExceeded(
            f"the command was ended because it passed a limit of the sandbox ({reason}); use less, or raise "
            "SANDBOX_MEMORY_MB, SANDBOX_DISK_MB or SANDBOX_PIDS",
            context={"limit": reason.partition(":")[0]},
        )

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
