"""Holds one background process of a sandbox for as long as it runs, when the program that asked has long ended.

A local sandbox's processes end with the process that started them, which is what makes a killed owner leave nothing
behind, and so does the way out of a container's. What is to run on (``Sandbox.keep``) gets an owner of its own: this
program, detached from whoever starts it. It has the sandbox's watchdog and its way out, which it opens again where the
proxy ends, and goes with the process or the sandbox. When it is killed, a local process goes with it, and one in a
container has no network until whoever keeps it next brings another holder. A lock beside the sandbox's record says that
it is there, and a log of a bounded size what its process asked for and was refused.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from koda_ray.errors import KodaError, SandboxError, SandboxNotFound
from koda_ray.own_process import own_environment
from koda_ray.sandbox.journal import OutputLog
from koda_ray.sandbox.retold import describe_error, revive_ours
from koda_ray.sandbox.strays import HOLDER

__all__ = ["Hold", "HoldRequest", "HoldingProvider", "HoldingSandbox", "hold", "holding", "main", "refused_of"]

_START_TIMEOUT_S = 60.0
_ERROR_BYTES = 64 * 1024

Hold = Callable[[str, Sequence[str], bool], Awaitable[None]]
"""Has a process of one sandbox held: its name, its command, and whether it may use the network."""


class HoldingSandbox(Protocol):
    """A sandbox whose processes a process of ours holds."""

    async def start_kept(self, name: str, argv: Sequence[str], *, network: bool) -> None:
        """Start what this process shall hold."""
        ...

    async def ended(self, name: str) -> None:
        """Wait until it has ended, or the sandbox has."""
        ...


class HoldingProvider(Protocol):
    """A provider of such sandboxes: what of it a holder uses."""

    async def connect(self, sandbox_id: str) -> HoldingSandbox:
        """Become the owner of one. Raises SandboxNotFound."""
        ...

    async def close(self) -> None:
        """Let go of all that is open."""
        ...


@dataclass(frozen=True, kw_only=True)
class HoldRequest:
    """What is to be held, for whom: all of it is pickled, from one process of ours to another."""

    provider: HoldingProvider
    sandbox_id: str
    directory: Path
    name: str
    argv: tuple[str, ...]
    network: bool


def holding(provider: HoldingProvider, *, sandbox_id: str, directory: Path) -> Hold:
    """Return what has processes of one sandbox held.

    Args:
        provider: Whose it is; the holder gets it, and connects there.
        sandbox_id: Which.
        directory: Where its record lies.
    """
    return lambda name, argv, network: hold(
        HoldRequest(
            provider=provider,
            sandbox_id=sandbox_id,
            directory=directory,
            name=name,
            argv=tuple(argv),
            network=network,
        )
    )


async def hold(request: HoldRequest) -> None:
    """Start a holder and wait until its process runs; nothing happens where one of its name runs already.

    Raises:
        KodaError: As the holder met it.
    """
    if await asyncio.to_thread(_is_held, _lock_of(request)):
        return
    line = [sys.executable, "-P", "-m", HOLDER, f"{request.directory}/{request.name}"]
    with tempfile.TemporaryFile() as errors:
        process = await asyncio.create_subprocess_exec(
            *line,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=own_environment({"PATH": os.environ.get("PATH", os.defpath)}),
            cwd="/",
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(_START_TIMEOUT_S):
                said, _ = await process.communicate(pickle.dumps(request))
        except TimeoutError:
            with suppress(ProcessLookupError):  # it has detached: what it began with is gone, its group is not
                os.killpg(process.pid, signal.SIGKILL)
            raise SandboxError(
                f"the process {request.name!r} of the sandbox {request.sandbox_id} was not started within "
                f"{_START_TIMEOUT_S:g} s; the machine may be busy: try again, or terminate the sandbox and make another"
            ) from None
        if said == b"":
            raise _lost(request, errors)
    if said != b"ok":
        raise revive_ours(json.loads(said))


def _lost(request: HoldRequest, errors: IO[bytes]) -> SandboxError:
    """Make the error of a holder that ended without a word, by what its Python wrote, if that wrote anything."""
    errors.seek(0)
    lines = errors.read(_ERROR_BYTES).decode("utf-8", "replace").strip().splitlines()
    why = (
        f"{lines[-1][:300]}; mend that, and try again"
        if lines
        else "something on this machine has killed it, often for want of memory; try again"
    )
    return SandboxError(
        f"the holder of process {request.name!r} of the sandbox {request.sandbox_id} ended before it began: {why}"
    )


def refused_of(directory: Path) -> Counter[tuple[str, str]]:
    """Count what processes that are held were refused, by their name and the kind: only a holder's own log has it.

    Args:
        directory: Where the sandbox's record lies, which nothing inside it sees.
    """
    found: Counter[tuple[str, str]] = Counter()
    for path in (*directory.glob("*.old"), *directory.glob("*.log")):
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            with suppress(ValueError, TypeError, KeyError):  # a line that was cut off
                told = json.loads(line)
                if told["event"] == "sandbox refused":
                    found[path.stem, str(told["refused"])] += int(told.get("times", 1))
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Read a request, detach, and hold it to its end."""
    request: HoldRequest = pickle.loads(sys.stdin.buffer.read())
    # whoever asked waits for the first process only; some end their children when they end
    if os.fork() != 0:
        os._exit(0)
    asyncio.run(_hold(request))


async def _hold(request: HoldRequest) -> None:
    try:
        sandbox = await _begun(request)
    except KodaError as error:
        _answer(json.dumps(describe_error(error)).encode())
        return
    _answer(b"ok")
    try:
        if sandbox is not None:
            await sandbox.ended(request.name)
    finally:
        await request.provider.close()


async def _begun(request: HoldRequest) -> HoldingSandbox | None:
    """Take the lock, which goes with this process, and start what is to be held; None where another holds it."""
    try:
        lock = os.open(_lock_of(request), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except FileNotFoundError:
        raise SandboxNotFound(
            f"there is no sandbox {request.sandbox_id}; make another and restore the last checkpoint into it",
            context={"sandbox_id": request.sandbox_id},
        ) from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return None
    from koda_ray.logs import to_file  # a holder's alone: structlog is much for whoever only asks one

    to_file(OutputLog(request.directory / f"{request.name}.log"))
    sandbox = await request.provider.connect(request.sandbox_id)
    await sandbox.start_kept(request.name, request.argv, network=request.network)
    return sandbox


def _lock_of(request: HoldRequest) -> Path:
    return request.directory / f"{request.name}.lock"


def _is_held(path: Path) -> bool:
    try:
        lock = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def _answer(text: bytes) -> None:
    """Say how it went; whoever asked reads to the end, so that is given too."""
    sys.stdout.buffer.write(text)
    sys.stdout.buffer.flush()
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    os.close(nothing)


if __name__ == "__main__":
    main()
