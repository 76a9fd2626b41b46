"""Background processes inside a sandbox that is reached over a wire, known by their names to whoever connects.

Each has a keeper: a detached process of root's that starts it, keeps the end of its output in a file of limited size,
and writes down how it ended. So a process outlives the connection that started it, and any other connection can list,
read and stop it. A keeper's folder is root's; hostile code can neither change nor imitate it.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypedDict, cast

from koda_ray.errors import NotFound, SandboxError
from koda_ray.sandbox.base import ProcessInfo

__all__ = ["OUTPUT_BYTES", "end_marked", "end_tree", "output", "processes", "start", "stop"]

OUTPUT_BYTES = 256 * 1024
"""How much of the end of a process's output is kept; its file holds at most twice that."""

_FOLDER = Path("/opt/koda/processes")
_END_TIMEOUT_S = 10.0
_POLL_S = 0.01
_VANISHED = 137  # what a killed process leaves: its keeper went with it
_BURST_BYTES = 4 * 1024 * 1024
_BURST_PAUSE_S = 0.05


class _Status(TypedDict):
    pid: int
    ticks: int
    keeper: int
    keeper_ticks: int


def start(name: str, argv: Sequence[str]) -> ProcessInfo:
    """Start a command under a name; one of the same name is ended first."""
    stop(name)
    folder = _FOLDER / name
    folder.mkdir(parents=True, mode=0o700)
    ready, told = os.pipe()
    if os.fork() == 0:
        os.close(ready)
        _keep(folder, argv, told)
    os.close(told)
    with os.fdopen(ready, "rb") as answer:
        said = answer.read()
    if said != b"ok":
        shutil.rmtree(folder, ignore_errors=True)
        raise SandboxError(
            f"the background process {name!r} could not be started: {said.decode()[:300]}; see that the program is "
            "there, that it may be run, and that the sandbox is not full of processes"
        )
    return _info(folder)


def stop(name: str) -> None:
    """End a process and all that it started, and forget it; nothing happens when it is not there."""
    folder = _FOLDER / name
    status = _status(folder)
    if status is not None:
        if _ticks(status["pid"]) == status["ticks"] != 0:
            end_tree(status["pid"])
        deadline = time.monotonic() + _END_TIMEOUT_S
        while _ticks(status["keeper"]) == status["keeper_ticks"]:
            if time.monotonic() > deadline:
                _kill(status["keeper"], status["keeper_ticks"])
                raise SandboxError(
                    f"the background process {name!r} did not end {_END_TIMEOUT_S:g} s after SIGKILL; the kernel keeps "
                    "it, perhaps in a read of a disk: try again, or make another sandbox and restore the last "
                    "checkpoint into it"
                )
            time.sleep(_POLL_S)
    shutil.rmtree(folder, ignore_errors=True)


def end_tree(pid: int) -> None:
    """Kill a command that has a process namespace, and return when nothing of the namespace is left.

    The end of the namespace's first process is the end of all; who only kills the process that waits for it would not
    know when. Nothing happens when the process is no such one, or is gone.

    Raises:
        SandboxError: PROVIDER_ERROR, the kernel does not let go of it.
    """
    if _comm(pid) != "unshare":
        return
    deadline = time.monotonic() + _END_TIMEOUT_S
    for first in _children(pid):
        with suppress(ProcessLookupError):
            fd = os.pidfd_open(first)
            try:
                signal.pidfd_send_signal(fd, signal.SIGKILL)
                if not select.select([fd], [], [], max(0.0, deadline - time.monotonic()))[0]:
                    raise SandboxError(
                        f"process {first} did not end {_END_TIMEOUT_S:g} s after SIGKILL; the kernel keeps it, "
                        "perhaps in a read of a disk: try again, or make another sandbox and restore the last "
                        "checkpoint into it"
                    )
            finally:
                os.close(fd)
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def end_marked(mark: str) -> None:
    """Kill every process that has a mark in its environment, with its session where that process leads one.

    They are stopped first, so that nothing outruns it. What tmux itself runs for a terminal has the mark too, in the
    session of tmux's server, which does not have it.

    Raises:
        SandboxError: PROVIDER_ERROR, some do not end.
    """
    deadline = time.monotonic() + _END_TIMEOUT_S
    while found := _marked(mark.encode()):
        if time.monotonic() > deadline:
            raise SandboxError(
                f"the processes {found[:5]} with the mark {mark!r} did not end {_END_TIMEOUT_S:g} s after SIGKILL; try "
                "again, or make another sandbox and restore the last checkpoint into it"
            )
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in found:
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
        time.sleep(_POLL_S)


def processes() -> list[ProcessInfo]:
    """List the processes, sorted by name, those that ended among them."""
    with suppress(FileNotFoundError):
        return [_info(folder) for folder in sorted(_FOLDER.iterdir()) if _status(folder) is not None]
    return []


def output(name: str, *, max_bytes: int) -> bytes:
    """Read the end of a process's output and errors.

    Raises:
        NotFound: There is no process of that name.
    """
    try:
        data = (_FOLDER / name / "output").read_bytes()
    except FileNotFoundError:
        there = ", ".join(info.name for info in processes()) or "none"
        raise NotFound(
            f"there is no background process {name[:80]!r}; name one that there is ({there}), or start it"
        ) from None
    return data[-min(max_bytes, OUTPUT_BYTES) :] if max_bytes > 0 else b""


def _info(folder: Path) -> ProcessInfo:
    status = _status(folder)
    if status is None:
        raise SandboxError(f"the background process {folder.name!r} went away while it was looked at; start it again")
    try:
        code: int | None = int((folder / "exit").read_text())
    except FileNotFoundError:
        code = None if _ticks(status["keeper"]) == status["keeper_ticks"] else _VANISHED
    return ProcessInfo(name=folder.name, pid=status["pid"], running=code is None, exit_code=code)


def _keep(folder: Path, argv: Sequence[str], told: int) -> None:
    """Be the keeper: never returns."""
    try:
        os.setsid()
        if os.fork() != 0:
            os._exit(0)
        (folder / "output").touch(mode=0o600)
        nothing = os.open(os.devnull, os.O_RDWR)
        for fd in range(3):
            os.dup2(nothing, fd)
        try:
            process = subprocess.Popen(
                list(argv), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd="/"
            )
        except OSError as error:
            os.write(told, str(error).encode())
            os._exit(1)
        own = os.getpid()
        status = _Status(pid=process.pid, ticks=_ticks(process.pid), keeper=own, keeper_ticks=_ticks(own))
        _write(folder / "status", json.dumps(status))
        os.write(told, b"ok")
        os.close(told)
        assert process.stdout is not None
        _collect(process.stdout.fileno(), folder / "output")
        code = process.wait()
        _write(folder / "exit", str(128 - code if code < 0 else code))
    finally:
        os._exit(0)


def _collect(fd: int, path: Path) -> None:
    """Append to a file; when it is twice as long as what is kept, go on with its end."""
    size = burst = 0
    file = path.open("ab", buffering=0)
    while data := os.read(fd, 65536):
        file.write(data)
        size, burst = size + len(data), burst + len(data)
        if size > 2 * OUTPUT_BYTES:
            end = path.read_bytes()[-OUTPUT_BYTES:]
            fresh = path.with_name("output.new")
            file.close()
            file = fresh.open("wb", buffering=0)
            file.write(end)
            fresh.rename(path)
            size = len(end)
        if burst > _BURST_BYTES:
            burst = 0
            time.sleep(_BURST_PAUSE_S)
    file.close()


def _write(path: Path, text: str) -> None:
    fresh = path.with_name(f".{path.name}")
    fresh.write_text(text)
    fresh.rename(path)


def _status(folder: Path) -> _Status | None:
    try:
        return cast("_Status", json.loads((folder / "status").read_text()))
    except (OSError, ValueError):
        return None


def _kill(pid: int, ticks: int) -> None:
    if ticks and _ticks(pid) == ticks:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _comm(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):
                if int((entry / "stat").read_text().rpartition(")")[2].split()[1]) == pid:
                    found.append(int(entry.name))
    return found


def _marked(mark: bytes) -> list[int]:
    """Find processes by a mark, and those in a session that one of them leads; not those that have ended."""
    marked: set[int] = set()
    sessions: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and entry.name != "1":  # that its environment was read is told
            with suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if fields[0] in "ZX":
                    continue
                sessions[int(entry.name)] = int(fields[3])
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    marked.add(int(entry.name))
    return [pid for pid, session in sessions.items() if pid in marked or session in marked]


def _ticks(pid: int) -> int:
    """When a process started, in ticks since the machine did; 0 when it is gone, or waits only to be looked at."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return 0 if fields[0] == "Z" else int(fields[19])
