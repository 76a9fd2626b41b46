"""One confined process from its start to the moment when nothing that it started is left.

The exit of a command is not the end of it: a daemon that it forked twice may live on. Every command has a process
namespace of its own, so there is one thing to wait for, the namespace's first process: the kernel reports its end only
after all others in the namespace are gone. A process dies with the thread that started it (``--die-with-parent``), so a
killed owner leaves none behind; that also means: start processes from a thread that lives, such as the event loop's.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from koda_ray.errors import SandboxError
from koda_ray.sandbox.kept import Kept, KeptOutput
from koda_ray.sandbox.offered import offered

__all__ = ["Capture", "Confined", "wait_readable"]

_READ_BYTES = 64 * 1024
_BURST_BYTES = 4 * 1024 * 1024
_BURST_PAUSE_S = 0.05
_INFO_TIMEOUT_S = 10.0
_END_TIMEOUT_S = 20.0
_REAP_TIMEOUT_S = 2.0
_DRAIN_TIMEOUT_S = 1.0
_ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin"}  # the launcher's; this program's own never leaves it


class Capture:
    """Reads a pipe to its end and keeps the first and the last bytes of it.

    Reading never stops, so a process that writes without end is not held up by a full pipe, but it is slowed down:
    4 MB, then a pause of 50 ms, so that infinite output costs this program little.

    Args:
        fd: The pipe's reading end; owned and closed here.
        kept: What of it is kept.
    """

    def __init__(self, fd: int, kept: KeptOutput) -> None:
        self._fd = fd
        self._kept = Kept(head_bytes=kept.head_bytes, tail_bytes=kept.tail_bytes)
        self._burst = 0
        self._resume: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        os.set_blocking(fd, False)
        self._loop.add_reader(fd, self._read)

    @property
    def truncated(self) -> bool:
        """Whether bytes in the middle were left out."""
        return self._kept.truncated

    def text(self) -> str:
        """What was kept, as text; a line says how much was left out."""
        return self._kept.text()

    async def drained(self) -> None:
        """Wait for the end of the pipe, at most a second: one outside the namespace may hold it open. Then close."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_DRAIN_TIMEOUT_S):
                await self._ended.wait()
        self.close()

    def close(self) -> None:
        """Stop reading; what was read stays."""
        if self._fd < 0:
            return
        if self._resume is not None:
            self._resume.cancel()
        self._loop.remove_reader(self._fd)
        os.close(self._fd)
        self._fd = -1
        self._ended.set()

    def _read(self) -> None:
        try:
            data = os.read(self._fd, _READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
            self.close()
            return
        self._kept.add(data)
        self._burst += len(data)
        if self._burst >= _BURST_BYTES:
            self._burst = 0
            self._loop.remove_reader(self._fd)
            self._resume = self._loop.call_later(_BURST_PAUSE_S, self._rearm)

    def _rearm(self) -> None:
        if self._fd >= 0:
            self._loop.add_reader(self._fd, self._read)


class Confined:
    """A running command line and everything below it.

    Attributes:
        stdout: What it has written.
        stderr: The same for its errors; equal to ``stdout`` when both were asked to be one.
        daemons: What its first process has told, once all have ended: how many processes wanted to live on.
    """

    def __init__(
        self,
        popen: subprocess.Popen[bytes],
        stdout: Capture,
        stderr: Capture,
        info_fd: int | None,
        kill_strays: Callable[[], None] | None,
        told_fd: int | None = None,
    ) -> None:
        self.stdout = stdout
        self.stderr = stderr
        self._popen = popen
        self._started = time.monotonic()
        self._ended_at: float | None = None
        self._init_pidfd: int | None = None
        self._init_pid = 0
        self._begun = asyncio.Event()
        self._exited = os.pidfd_open(popen.pid)  # now: once it is reaped, its number says nothing
        self._finished = asyncio.create_task(self._finish(), name=f"sandbox-process-{popen.pid}")
        self._info_fd = info_fd
        self._kill_strays = kill_strays
        self._told_fd = told_fd
        self.daemons = 0

    @classmethod
    def start(
        cls,
        command: Callable[[int], Sequence[str]],
        *,
        kept: KeptOutput,
        pass_fds: Sequence[int] = (),
        kill_strays: Callable[[], None] | None = None,
        terminal: int | None = None,
        telling: bool = False,
    ) -> Confined:
        """Start a command line.

        Args:
            command: Makes the command line, given the descriptor to which bubblewrap writes the first process's id.
            kept: What is kept of its output.
            pass_fds: Further descriptors that stay open in it; the caller's to close afterwards.
            kill_strays: For a command line that makes no process namespace: called at its end, to end what is left.
            terminal: The descriptor of a terminal that it reads from and writes to instead; the caller's to close.
            telling: Whether its first process writes into its input how many daemons it leaves.

        Raises:
            SandboxError: PROVIDER_ERROR when the launcher could not be started.
        """
        out_read, out_write = os.pipe2(os.O_CLOEXEC)
        err_read, err_write = (out_read, out_write) if kept.merged else os.pipe2(os.O_CLOEXEC)
        info_read, info_write = os.pipe2(os.O_CLOEXEC)
        told_read, stdin = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK) if telling else (None, subprocess.DEVNULL)
        ours, theirs = {out_read, err_read, info_read}, {out_write, err_write, info_write}
        if told_read is not None:
            ours, theirs = ours | {told_read}, theirs | {stdin}
        try:
            popen = subprocess.Popen(
                list(command(info_write)),
                stdin=stdin if terminal is None else terminal,
                stdout=out_write if terminal is None else terminal,
                stderr=err_write if terminal is None else terminal,
                pass_fds=(info_write, *pass_fds),
                cwd="/",
                env=_ENVIRONMENT,
                start_new_session=kill_strays is not None,
            )
        except BaseException as error:
            for fd in ours:
                os.close(fd)
            if isinstance(error, OSError):
                raise SandboxError(
                    f"a sandboxed process could not be started: {error}; see that bubblewrap is installed (`koda "
                    "doctor`) and that this user may start more processes and open more files (`ulimit -u -n`)"
                ) from error
            raise
        finally:
            for fd in theirs:
                os.close(fd)
        if kill_strays is not None:
            os.close(info_read)
        stdout = Capture(out_read, kept)
        stderr = stdout if kept.merged else Capture(err_read, kept)
        return cls(popen, stdout, stderr, info_read if kill_strays is None else None, kill_strays, told_read)

    @property
    def pid(self) -> int:
        """The launcher's process id on this machine."""
        return self._popen.pid

    @property
    def exit_code(self) -> int | None:
        """The exit code, 128 + n for a signal n; None while it runs."""
        return self._popen.returncode if self._popen.returncode is None else _exit_code(self._popen.returncode)

    @property
    def duration_s(self) -> float:
        """How long it has run, or ran."""
        return (self._ended_at or time.monotonic()) - self._started

    def offered(self) -> frozenset[int]:
        """Name the ports that it offers to everybody, in a network of its own; none of one that has no such network."""
        if self._init_pidfd is None:
            return frozenset()
        found = offered(f"/proc/{self._init_pid}/net")
        try:
            signal.pidfd_send_signal(self._init_pidfd, 0)
        except OSError:
            return frozenset()  # it has ended, and its number may be another's
        return found

    async def wait(self) -> int:
        """Wait until it and everything that it started have ended; a cancelled wait ends nothing."""
        await asyncio.shield(self._finished)
        return _exit_code(self._popen.wait())

    async def kill(self) -> None:
        """End it and everything that it started, at once, and wait until they are gone. May be called twice.

        Raises:
            SandboxError: PROVIDER_ERROR when the kernel does not let go of it within 20 s.
        """
        # bubblewrap ends when it has reaped the first process: killed before that, it would leave it to others
        with suppress(TimeoutError):
            async with asyncio.timeout(_REAP_TIMEOUT_S):
                await self._begun.wait()
                if self._init_pidfd is not None:
                    with suppress(ProcessLookupError):
                        signal.pidfd_send_signal(self._init_pidfd, signal.SIGKILL)
                    await asyncio.shield(self._finished)
        if self._popen.returncode is None:
            with suppress(ProcessLookupError):
                if self._kill_strays is not None:
                    os.killpg(self._popen.pid, signal.SIGKILL)
                self._popen.kill()
        try:
            async with asyncio.timeout(_END_TIMEOUT_S):
                await asyncio.shield(self._finished)
        except TimeoutError:
            raise SandboxError(
                f"process {self._popen.pid} did not end {_END_TIMEOUT_S:g} s after SIGKILL; the kernel keeps it, "
                "perhaps in a read of a disk: look at it with `ps -o pid,stat,wchan`, and destroy the sandbox once it "
                "is gone"
            ) from None

    async def _finish(self) -> None:
        try:
            if self._info_fd is not None:
                self._init_pid, self._init_pidfd = await _init_process(self._info_fd)
            self._begun.set()
            await wait_readable(self._exited)
            self._popen.wait()
            if self._init_pidfd is not None:
                # the first process is killed with its parent; its end is the end of all others in the namespace
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(self._init_pidfd, signal.SIGKILL)
                await wait_readable(self._init_pidfd)
            elif self._kill_strays is not None:
                await asyncio.to_thread(self._kill_strays)
        finally:
            os.close(self._exited)
            if self._init_pidfd is not None:
                os.close(self._init_pidfd)
                self._init_pidfd = None
            if self._told_fd is not None:
                self.daemons = _number(self._told_fd)
        self._ended_at = time.monotonic()
        await self.stdout.drained()
        if self.stderr is not self.stdout:
            await self.stderr.drained()


async def wait_readable(fd: int) -> None:
    """Wait until a descriptor is readable, without reading."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()

    def fire() -> None:
        if not ready.done():
            ready.set_result(None)

    loop.add_reader(fd, fire)
    try:
        await ready
    finally:
        loop.remove_reader(fd)


def _number(fd: int) -> int:
    """Read a number that was written into a pipe, and close it; 0 where there is none."""
    try:
        return int(os.read(fd, 16))
    except (OSError, ValueError):
        return 0
    finally:
        os.close(fd)


async def _init_process(info_fd: int) -> tuple[int, int | None]:
    """Read which process is the namespace's first, and hold on to it; None when there never was one."""
    text = b""
    os.set_blocking(info_fd, False)
    try:
        async with asyncio.timeout(_INFO_TIMEOUT_S):
            while True:
                await wait_readable(info_fd)
                data = os.read(info_fd, 4096)
                text += data
                if not data or b"}" in text:
                    break
        pid = int(json.loads(text)["child-pid"])
        return pid, os.pidfd_open(pid)
    except (TimeoutError, ValueError, KeyError, ProcessLookupError):
        return 0, None
    finally:
        os.close(info_fd)


def _exit_code(code: int) -> int:
    return 128 - code if code < 0 else code
