"""What runs in one local sandbox through this program: begun within its walls, held to its limits, counted, ended."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from os import close as close_fd
from pathlib import Path

from koda_ray.errors import KodaError
from koda_ray.sandbox import cgroup
from koda_ray.sandbox.baits import BAITED, Baits, keys
from koda_ray.sandbox.bare import MARKER, Bare, new_mark
from koda_ray.sandbox.counts import Counts
from koda_ray.sandbox.decoys import DECOYS, Decoys
from koda_ray.sandbox.denials import Denials
from koda_ray.sandbox.invocation import Invocation
from koda_ray.sandbox.isolation import CallFilter, Jail, can_be_heard, launcher
from koda_ray.sandbox.kept import KeptOutput
from koda_ray.sandbox.outcome import passed
from koda_ray.sandbox.process import Confined
from koda_ray.sandbox.processors import processors_of
from koda_ray.sandbox.record import Record
from koda_ray.sandbox.refused import note
from koda_ray.sandbox.strays import kill_marked
from koda_ray.sandbox.triggers import TRIGGERS, Trigger
from koda_ray.sandbox.user_namespace import UserNamespace
from koda_ray.sandbox.watchdog import Watchdog
from koda_ray.sandbox.way_out import WayOut
from koda_ray.seccomp_file import filter_fd

__all__ = ["LocalProcesses"]


class LocalProcesses:
    """The processes of one sandbox that this program has started.

    Args:
        record: Whose they are.
        disk: Where its files lie, and its baits.
        walls: What is around each.
        way_out: What those may use that ask for the network.
        filled: Counts the bytes and the files on disk of all that it may fill; blocks.
        check_open: Raises where the sandbox is gone, or this program has let go of it.
    """

    def __init__(
        self,
        record: Record,
        *,
        disk: Path,
        walls: Jail | Bare,
        way_out: WayOut,
        filled: Callable[[], tuple[int, int]],
        check_open: Callable[[], Awaitable[None]],
    ) -> None:
        self._id = record.id
        self._walls = walls
        self._way_out = way_out
        self._check_open = check_open
        self._groups = tuple(map(Path, record.groups))
        self._running: set[Confined] = set()
        self._daemons = 0
        self._exceeded: dict[Confined, tuple[str, str]] = {}
        self._denials = Denials()
        hard_disk = record.disk == "tmpfs"
        baits, decoys = Baits(keys(disk / BAITED)), Decoys.looked_for(disk / DECOYS)
        self._counts = Counts(
            {
                "memory": self.ended_for_memory,
                "processes": lambda: cgroup.pids_refused(self._groups),
                "network": self._denials.not_reached,
                "bait": lambda: baits.total() + decoys.total(),
                "trigger": Trigger(disk / TRIGGERS).total,
                "daemon": lambda: self._daemons + sum(process.daemons for process in self._running),
            },
            offered=lambda: {(process, port) for process in self._running for port in process.offered()},
            disks=[str(disk)] if hard_disk else [],
        )
        limits = walls.limits
        self._launched = partial(
            launcher,
            groups=cgroup.enter_files(self._groups),
            limits=limits,
            hard_disk=hard_disk,
            processors=() if cgroup.holds_processors(self._groups) else processors_of(record.id, limits.cpus),
        )
        self._users = UserNamespace(walls.inside_user) if isinstance(walls, Jail) and walls.user is None else None
        self._watchdog = Watchdog(
            limits,
            watch_memory=not self._groups,
            disks=[disk] if hard_disk else [],
            filled=None if hard_disk else filled,
            pids=self.pids,
            exceeded=self._end_exceeding,
        )

    async def begin(
        self, called: Invocation, *, kept: KeptOutput, network: bool = False, terminal: int | None = None
    ) -> Confined:
        """Start a command within the walls.

        Args:
            called: The command.
            kept: What is kept of its output.
            network: Whether it may use the way out.
            terminal: The descriptor of a terminal that it reads from and writes to; the caller's to close.

        Raises:
            KodaError: As ``check_open``, before it is started.
            SandboxError: PROVIDER_ERROR, it could not be started.
        """
        await self._check_open()
        if isinstance(self._walls, Bare):
            process = self._begin_bare(self._walls, called, kept=kept, terminal=terminal)
        else:
            process = await self._begin_jailed(self._walls, called, kept=kept, network=network, terminal=terminal)
        self._running.add(process)
        self._watchdog.wake()
        return process

    def forget(self, process: Confined) -> None:
        """Take one that has ended off the list."""
        if process in self._running:
            self._running.remove(process)
            self._daemons += process.daemons

    def pids(self) -> list[int]:
        """Name the launchers that run."""
        return [process.pid for process in tuple(self._running) if process.exit_code is None]

    def ended_for_memory(self) -> int:
        """Say how often the kernel has ended something of the sandbox's for its memory, ever; 0 where it cannot say."""
        return cgroup.oom_kills(self._groups)

    def check_exceeded(self, process: Confined) -> None:
        """Say that one was ended for a limit.

        Raises:
            QuotaExceeded: QUOTA_EXCEEDED, which one, and what to do.
        """
        reason = self._exceeded.pop(process, None)
        if reason is not None:
            raise passed(*reason)

    def note_counts(self) -> None:
        """Note what was refused since the last time."""
        for refused, times in self._counts.news().items():
            note(self._id, refused, times=times)
        for call, times in self._denials.calls().items():
            note(self._id, "call", call=call, times=times)

    async def close(self) -> None:
        """End everything that runs, and the way out; may be called twice."""
        await self._watchdog.close()
        await self._way_out.close()
        await asyncio.gather(*(process.kill() for process in tuple(self._running)))
        for process in tuple(self._running):
            self.forget(process)
        self.note_counts()
        self._denials.close()
        if self._users is not None:
            self._users.close()

    # inside

    def _begin_bare(self, walls: Bare, called: Invocation, *, kept: KeptOutput, terminal: int | None) -> Confined:
        mark = new_mark()
        line = self._launched(walls.command(called, mark=mark))
        return Confined.start(
            lambda _: line,
            kept=kept,
            pass_fds=called.pass_fds,
            terminal=terminal,
            kill_strays=lambda: kill_marked(MARKER, mark),
        )

    async def _begin_jailed(
        self, walls: Jail, called: Invocation, *, kept: KeptOutput, network: bool, terminal: int | None
    ) -> Confined:
        egress = await self._way_out.open() if network and self._way_out.leads else None
        users = None if self._users is None else await self._users.path()
        await self._check_open()
        telling = terminal is None
        with self._filter() as calls:
            return Confined.start(
                lambda info_fd: self._launched(
                    walls.command(called, info_fd=info_fd, calls=calls, egress=egress, telling=telling, users=users)
                ),
                kept=kept,
                pass_fds=(*called.pass_fds, *(() if calls is None else calls.fds)),
                terminal=terminal,
                telling=telling,
            )

    @contextmanager
    def _filter(self) -> Generator[CallFilter | None]:
        """Have the filter of system calls for a command that is started in the block; None where none is known."""
        heard = can_be_heard()
        fd = filter_fd(heard=heard)
        if fd is None:
            yield None
            return
        with ExitStack() as opened:
            opened.callback(close_fd, fd)
            door = opened.enter_context(self._denials.door()) if heard else None
            yield CallFilter(fd=fd, door_fd=None if door is None else door.fileno())

    async def _end_exceeding(self, limit: str, words: str) -> None:
        note(self._id, "limit", words=f"{limit}: {words}")
        for process in tuple(self._running):
            if process.exit_code is None:
                self._exceeded[process] = (limit, words)
                with suppress(KodaError):
                    await process.kill()
