"""What the first process of a container does for all others: start, wait, reap, and end whole trees of them.

Container engines end one process, not what it has started, and hostile code double-forks. So every command gets a small
parent of its own (``tini``, a "child subreaper": whatever its descendants orphan becomes its child), and the first
process has no other children than these. Once a command's parent has ended or was ended, all that it still had becomes
the first process's, which it can tell by that: each such stray is stopped, then killed with its descendants, until none
is left. Nothing inside can end the first process, nor get out from under it.

A kernel without subreapers (gVisor's, for long) gives orphans to the first process at once, also those of commands that
still run. There every command has a mark in its environment, and only strays without the mark of one that runs are
ended: what takes another's mark lives as long as that one does, in the same sandbox still.

Runs inside the container, in one thread: only the event loop starts, reaps and ends processes.
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from koda_ray.errors import QuotaExceeded, SandboxError
from koda_ray.sandbox.deaf import UNHEARD
from koda_ray.sandbox.kept import KeptOutput
from koda_ray.sandbox.process import Capture

__all__ = ["Offspring", "Started"]

_PARENT = ("/usr/bin/tini", "-s", "--")
_MARK = "KODA_COMMAND"
# the first to be chosen when memory runs out; 125 is what no command of ours ends with by itself
_LAUNCH = 'echo 700 2>/dev/null >/proc/$$/oom_score_adj; cd -- "$1" || exit 125; unset OLDPWD; shift; exec "$@"'
_END_TIMEOUT_S = 20.0
_PAUSE_S = 0.002
_MAX_PASSES = 100


class Started:
    """A command and all that it has started.

    Attributes:
        pid: Its parent's process id, as it is seen inside.
        stdout: What it has written.
        stderr: The same for its errors; equal to ``stdout`` where both were asked to be one.
        by_itself: Whether its end, should it come, is its own; not one of ours, nor a terminal's.
    """

    def __init__(self, pid: int, stdout: Capture, stderr: Capture, *, mark: str) -> None:
        self.pid = pid
        self.stdout = stdout
        self.stderr = stderr
        self.exit_code: int | None = None
        self.began = time.monotonic()
        self.duration_s = 0.0
        self.mark = mark
        self.reaped: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.gone: asyncio.Task[None] | None = None
        self.by_itself = True


class Offspring:
    """All processes below the first one.

    Attributes:
        daemons: How many had left their command's session and outlived it, ever; what is in it still, such as a build's
            helper that is about to end, is no daemon.
    """

    def __init__(self) -> None:
        self.daemons = 0
        self._sessions: set[int] = set()
        self._started: dict[int, Started] = {}
        self._sweeping = asyncio.Lock()
        self._has_subreapers = _has_subreapers()
        asyncio.get_running_loop().add_signal_handler(signal.SIGCHLD, self._reap)

    def start(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        kept: KeptOutput,
        terminal: int | None = None,
    ) -> Started:
        """Start a command.

        Args:
            argv: The command.
            cwd: An absolute path.
            env: Its whole environment.
            kept: What is kept of its output.
            terminal: The descriptor of a terminal that it reads from and writes to instead; the caller's to close.

        Raises:
            QuotaExceeded: QUOTA_EXCEEDED, the limit of processes is reached.
            SandboxError: PROVIDER_ERROR.
        """
        out_read, out_write = os.pipe2(os.O_CLOEXEC)
        err_read, err_write = (out_read, out_write) if kept.merged else os.pipe2(os.O_CLOEXEC)
        null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        ends = (null, out_write, err_write) if terminal is None else (terminal, terminal, terminal)
        line = ["/bin/sh", "-c", _LAUNCH, "koda", cwd, *argv]
        mark = ""
        if self._has_subreapers:
            line = [*_PARENT, *line]
        else:
            mark = os.urandom(16).hex()
            env = {**env, _MARK: mark}
        try:
            pid = os.posix_spawn(
                line[0],
                line,
                env,
                file_actions=[(os.POSIX_SPAWN_DUP2, fd, to) for to, fd in enumerate(ends)],
                setsid=True,
                setsigdef=UNHEARD,
            )
        except OSError as error:
            for fd in {out_read, err_read}:
                os.close(fd)
            if error.errno == errno.EAGAIN:
                raise QuotaExceeded(
                    "no process can be started: the sandbox has as many as it may (pids); end some, or raise "
                    "SANDBOX_PIDS",
                    context={"limit": "pids"},
                ) from None
            raise SandboxError(
                f"{line[0][:100]!r} could not be started in the sandbox: {error.strerror}; see that it is there and "
                "may be run, or name another program"
            ) from error
        finally:
            for fd in {null, out_write, err_write}:
                os.close(fd)
        stdout = Capture(out_read, kept)
        stderr = stdout if kept.merged else Capture(err_read, kept)
        started = Started(pid, stdout, stderr, mark=mark)
        started.by_itself = terminal is None  # a terminal's command has a session of its own
        self._sessions.add(pid)
        self._started[pid] = started
        started.gone = asyncio.create_task(self._see_out(started))
        return started

    async def wait(self, started: Started) -> int:
        """Wait until a command and everything that it has started are gone; a cancelled wait ends nothing."""
        if started.gone is not None:
            await asyncio.shield(started.gone)
        return started.reaped.result()

    async def end(self, started: Started) -> None:
        """End a command and everything that it has started, at once, and wait until they are gone.

        Raises:
            SandboxError: PROVIDER_ERROR when they do not go within 20 s.
        """
        if not started.reaped.done():
            started.by_itself = False
            os.kill(started.pid, signal.SIGKILL)
        await self.wait(started)

    def resized(self, started: Started) -> None:
        """Tell a command, and what it has started, that its terminal has another size.

        Most kernels have done so by themselves; gVisor's does not, and to be told twice changes nothing.
        """
        _signal(_Seen().below({started.pid}), signal.SIGWINCH)

    # inside

    async def _see_out(self, started: Started) -> None:
        await started.reaped
        await self._sweep(counted=started.by_itself)
        self._sessions.discard(started.pid)
        await started.stdout.drained()
        if started.stderr is not started.stdout:
            await started.stderr.drained()
        started.duration_s = time.monotonic() - started.began
        started.exit_code = started.reaped.result()

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            started = self._started.pop(pid, None)  # others were orphans
            if started is not None and not started.reaped.done():
                code = os.waitstatus_to_exitcode(status)
                started.reaped.set_result(128 - code if code < 0 else code)

    async def _sweep(self, *, counted: bool) -> None:
        deadline = time.monotonic() + _END_TIMEOUT_S
        async with self._sweeping:
            while strays := self._strays():
                if counted:
                    self.daemons += sum(session not in self._sessions for session in strays.values())
                    counted = False
                # a stopped process still counts against the limit of processes, so a bomb cannot outrun this
                stopped: set[int] = set()
                for _ in range(_MAX_PASSES):
                    if strays.keys() <= stopped:
                        break
                    _signal(strays.keys() - stopped, signal.SIGSTOP)
                    stopped |= strays.keys()
                    strays = self._strays()
                _signal(strays.keys() | stopped, signal.SIGKILL)
                await asyncio.sleep(_PAUSE_S)
                if time.monotonic() > deadline:
                    raise SandboxError(
                        f"the processes {sorted(strays)[:5]} of the sandbox did not end {_END_TIMEOUT_S:g} s after "
                        "SIGKILL; make another sandbox and restore the last checkpoint into it"
                    )

    def _strays(self) -> dict[int, int]:
        """Find the first process's children that nobody has started here, with all their descendants, and sessions."""
        seen = _Seen()
        children = seen.children.get(os.getpid(), ())
        roots = {pid for pid in children if pid not in self._started and not self._belongs(pid)}
        return {pid: seen.sessions.get(pid, 0) for pid in seen.below(roots) - seen.dead}

    def _belongs(self, pid: int) -> bool:
        """Whether an orphan has the mark of a command that still runs."""
        if self._has_subreapers:
            return False
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                words = file.read().split(b"\0")
        except OSError:
            return False
        return any(f"{_MARK}={started.mark}".encode() in words for started in self._started.values())


class _Seen:
    """All processes at one moment: who started whom, their sessions, and which of them are dead."""

    def __init__(self) -> None:
        self.children: dict[int, list[int]] = {}
        self.sessions: dict[int, int] = {}
        self.dead: set[int] = set()
        for entry in os.listdir("/proc"):
            if not entry.isdecimal():
                continue
            try:
                with open(f"/proc/{entry}/stat", "rb") as file:
                    state, parent, _, session = file.read().rpartition(b")")[2].split()[:4]
            except (OSError, ValueError):
                continue
            self.children.setdefault(int(parent), []).append(int(entry))
            self.sessions[int(entry)] = int(session)
            if state in (b"Z", b"X"):
                self.dead.add(int(entry))

    def below(self, roots: set[int]) -> set[int]:
        """Find processes with all their descendants."""
        found: set[int] = set()
        waiting = list(roots)
        while waiting:
            pid = waiting.pop()
            found.add(pid)
            waiting += self.children.get(pid, ())
        return found


def _has_subreapers() -> bool:
    """Try one, before anything else is started."""
    line = [*_PARENT, "/bin/true"]
    quiet = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_WRONLY, 0) for fd in (1, 2)]
    _, status = os.waitpid(os.posix_spawn(line[0], line, {}, file_actions=quiet), 0)
    return status == 0


def _signal(pids: set[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
