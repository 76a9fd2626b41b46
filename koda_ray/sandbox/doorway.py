"""A door to ports inside a local sandbox: a program of ours that stands in a process's network and nowhere else.

Each background process of a local sandbox has a network name space of its own, whose loopback only its own children
see. Whoever wants to look at what listens there gets a Unix socket on this machine: this program accepts on it, and
connects in there. It has nothing else of the inside (neither its files nor its processes), passes bytes on, and ends
when whoever opened the door does.
"""

from __future__ import annotations

import asyncio
import fcntl
import itertools
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path

from koda_ray.cancellation import finish
from koda_ray.errors import NotFound, SandboxError
from koda_ray.own_process import own_environment
from koda_ray.sandbox.passing import Passing, relay_both
from koda_ray.sandbox.preview import listen
from koda_ray.sandbox.record import Owner
from koda_ray.sandbox.strays import DOORWAY

__all__ = ["Doors", "main", "write_address"]

_READY_TIMEOUT_S = 20.0
_END_TIMEOUT_S = 5.0
_BEGIN_TIMEOUT_S = 5.0
_LOOK_S = 0.02
_MAX_CLIENTS = 256
_NS_GET_USERNS = 0xB701  # Source: linux/nsfs.h
_CONNECT_TIMEOUT_S = 5.0
_MOST_DOORS = 16
_NUMBERS = itertools.count()
_LOOPBACKS = ("127.0.0.1", "::1")  # node listens on either where it is told `localhost`


def write_address(directory: Path, name: str, pid: int) -> None:
    """Write down which process of this machine a background process is; a directory that is gone is none of ours."""
    with suppress(OSError):
        _address(directory, name).write_text(json.dumps(asdict(Owner.of(pid))))


class Doors:
    """The doors that this process holds open to one sandbox.

    Args:
        directory: The sandbox's, where the inside sees nothing.
        sockets: A folder whose path is short enough for sockets.
    """

    def __init__(self, directory: Path, *, sockets: Path) -> None:
        self._directory = directory
        self._sockets = sockets
        self._open: dict[tuple[str, int], tuple[Owner, asyncio.subprocess.Process, str]] = {}
        self._opening = asyncio.Lock()

    async def path(self, port: int, *, of: str) -> str:
        """Return a socket that leads to a port of a background process, or of what that has started.

        Raises:
            NotFound: NOT_FOUND, no such process runs.
            SandboxError: PROVIDER_ERROR, its network cannot be entered.
        """
        async with self._opening:
            owner = await asyncio.to_thread(_read_address, self._directory, of)
            held = self._open.get((of, port))
            if held is not None and held[0] == owner and held[1].returncode is None:
                return held[2]
            if held is not None:
                await self._end((of, port))
            while len(self._open) >= _MOST_DOORS:
                await self._end(next(iter(self._open)))
            path = str(self._sockets / f"{port:x}.{os.getpid():x}.{next(_NUMBERS):x}")
            self._open[(of, port)] = (owner, await _opened(path, owner.pid, port, label=f"{self._directory}/"), path)
            return path

    async def close(self) -> None:
        """Shut them all; may be called twice."""
        async with self._opening:
            for key in tuple(self._open):
                await self._end(key)

    async def _end(self, key: tuple[str, int]) -> None:
        _, process, path = self._open.pop(key)
        await _ended(process)
        with suppress(OSError):
            os.unlink(path)


async def _opened(path: str, pid: int, port: int, *, label: str) -> asyncio.subprocess.Process:
    inner = await _inside(pid)
    listening = await asyncio.to_thread(listen, path)
    try:
        fd = listening.fileno()
        with _owner_of_network(inner) as owner:
            user = [] if os.geteuid() == 0 else [f"--user=/proc/self/fd/{owner}", "--preserve-credentials"]
            line = ["nsenter", *user, f"--net=/proc/{inner}/ns/net", "--"]
            # the label is for whoever ends the sandbox: it is by its command line that a door is found
            line += [sys.executable, "-P", "-m", DOORWAY, str(fd), str(port), label]
            process = await asyncio.create_subprocess_exec(
                *line,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=own_environment({"PATH": os.environ.get("PATH", os.defpath)}),
                cwd="/",
                pass_fds=(fd, owner),
                start_new_session=True,
            )
    except OSError as error:
        raise _unreachable(port, str(error)) from error
    finally:
        listening.close()
    assert process.stdout is not None and process.stderr is not None
    try:
        async with asyncio.timeout(_READY_TIMEOUT_S):
            if await process.stdout.readline() == b"ready\n":
                return process
            why = (await process.stderr.read()).decode("utf-8", "replace").strip()[-300:]
    except TimeoutError:
        why = f"it took longer than {_READY_TIMEOUT_S:g} s"
    except BaseException:
        await finish(_ended(process))
        raise
    await _ended(process)
    raise _unreachable(port, why or "no message")


def _unreachable(port: int, why: str) -> SandboxError:
    return SandboxError(
        f"port {port} of the sandbox cannot be reached from this machine: {why}; see that `nsenter` is there (apt-get "
        "install util-linux) and that the process still runs, and try again"
    )


async def _ended(process: asyncio.subprocess.Process) -> None:
    if process.stdin is not None:
        process.stdin.close()  # which is what tells it to end
    try:
        async with asyncio.timeout(_END_TIMEOUT_S):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


def _address(directory: Path, name: str) -> Path:
    return directory / f"{name}.pid"


def _read_address(directory: Path, name: str) -> Owner:
    try:
        owner = Owner(**json.loads(_address(directory, name).read_text()))
    except (OSError, ValueError, TypeError):
        owner = None
    if owner is None or not owner.alive:
        raise NotFound(f"no process {name!r} runs in the sandbox, so nothing listens there; launch one that does")
    return owner


async def _inside(pid: int) -> int:
    """Find the first process inside of what bubblewrap starts; it may only be about to."""
    deadline = time.monotonic() + _BEGIN_TIMEOUT_S
    while time.monotonic() < deadline:
        if (inner := await asyncio.to_thread(_apart, pid)) is not None:
            return inner
        await asyncio.sleep(_LOOK_S)
    raise NotFound("the process has just ended, so nothing listens there; launch it again")


def _apart(pid: int) -> int | None:
    with suppress(OSError):
        ours = os.stat("/proc/self/ns/net").st_ino
        for inner in map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()):
            if os.stat(f"/proc/{inner}/ns/net").st_ino != ours:
                return inner
    return None


@contextmanager
def _owner_of_network(inner: int) -> Generator[int]:
    """Open the user name space that a process's network belongs to: whoever is not root must be in it to enter that.

    It need not be the process's own: bubblewrap puts another one around what it runs.
    """
    network = os.open(f"/proc/{inner}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        user = fcntl.ioctl(network, _NS_GET_USERNS)
    finally:
        os.close(network)
    try:
        yield user
    finally:
        os.close(user)


def main() -> None:
    """Pass on what connects to the descriptor that is named first to the port that is named then."""
    asyncio.run(_stand(int(sys.argv[1]), int(sys.argv[2])))


async def _stand(fd: int, port: int) -> None:
    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _pass_on(reader, writer, port)

    passing = Passing(most=_MAX_CLIENTS)
    server = await asyncio.start_unix_server(passing.serve(pass_on), sock=socket.socket(fileno=fd))
    loop = asyncio.get_running_loop()
    over = asyncio.Event()
    loop.add_reader(0, over.set)  # its opener says nothing, and goes at some time
    os.write(1, b"ready\n")
    await over.wait()
    loop.remove_reader(0)
    server.close()
    await passing.break_off()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
    for host in _LOOPBACKS:
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT_S):
                inner = await asyncio.open_connection(host, port)
        except (OSError, TimeoutError):
            continue
        try:
            await relay_both((reader, writer), inner)
        finally:
            inner[1].close()
        return


if __name__ == "__main__":
    main()
