"""Programs that are loaded once in a process and copied at need.

FFmpeg takes 17 ms of a processor before it reads its command line: to bind a quarter of a million addresses and to fill
tables of sines. A unit of a small video takes 100 ms in all. So one is loaded up to there and waits (`zygote.c`), as
Android and Chromium keep a zygote for theirs, and a copy of it takes 1 ms. A copy is a child of this process as any
that it starts, with the same standard descriptors, folder, environment, name and command line. What else it inherits
is as it was when the one was loaded: there is one for each priority, and nobody here changes limits, signals or masks.

All copies of one lie alike in memory, so whoever breaks one knows more of the next: they are for files that we made.
What others made is read by programs that are started each time, in isolation (`foreign`).

Where it does not work (no C compiler, a program that is a script or has no dynamic linker, an old kernel) nothing is
lost but the time.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import hashlib
import os
import signal
import socket
import struct
import subprocess
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from importlib.resources import files
from pathlib import Path

from koda_ray.errors import Missing
from koda_ray.render.compiling import CompileFailed, compile_library
from koda_ray.render.isolation import own_folder, write_whole

__all__ = ["CopiedProcess", "Zygote", "forget", "forget_all", "zygote_of"]

PACKAGES = "gcc libc6-dev"
_REPLY_S = 1.0
_LOAD_S = 30.0
_NUMBER_BYTES = 4
_COUNT = struct.Struct("=I")
_MOST_BYTES, _MOST_WORDS = 1 << 17, 1 << 13
_ELF = b"\x7fELF"
_END_S = 5.0


class CopiedProcess:
    """A copy of a zygote: what we use of `asyncio.subprocess.Process`.

    Args:
        pid: Our child, which nobody has waited for.
        stdout: What it writes to standard output, where that is a pipe to us.
        stderr: What it writes to standard error.

    Raises:
        OSError: Too many files are open; the copy is ended.

    Attributes:
        pid: Its number.
        returncode: Its exit status once it was waited for; below zero the signal that ended it.
    """

    def __init__(self, pid: int, stdout: asyncio.StreamReader | None, stderr: asyncio.StreamReader | None) -> None:
        self.pid = pid
        self.stdout = stdout
        self.stderr = stderr
        self.returncode: int | None = None
        self._loop = asyncio.get_running_loop()
        try:
            self._descriptor = os.pidfd_open(pid)
        except OSError:  # as many files are open as may be
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise
        self._ended: asyncio.Future[int] = self._loop.create_future()
        self._loop.add_reader(self._descriptor, self._end)

    def _end(self) -> None:
        self._loop.remove_reader(self._descriptor)
        os.close(self._descriptor)
        try:
            self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        except ChildProcessError:  # somebody waits for all children of this process
            self.returncode = 255
        if not self._ended.done():
            self._ended.set_result(self.returncode)

    async def wait(self) -> int:
        """Wait for its end; return its exit status."""
        return await asyncio.shield(self._ended)

    async def communicate(self) -> tuple[bytes, bytes]:
        """Wait for its end; return all that it wrote to standard output and standard error."""
        output, errors = await asyncio.gather(_all_of(self.stdout), _all_of(self.stderr))
        await self.wait()
        return output, errors

    def kill(self) -> None:
        """Send it SIGKILL.

        Raises:
            ProcessLookupError: It has ended.
        """
        if self.returncode is not None:
            raise ProcessLookupError
        signal.pidfd_send_signal(self._descriptor, signal.SIGKILL)


async def _all_of(stream: asyncio.StreamReader | None) -> bytes:
    return b"" if stream is None else await stream.read()


class Zygote:
    """A program that is loaded and waits to be copied. `close` ends it, as does the end of this process.

    Args:
        program: Its path.
        library: ``zygote.c``, compiled.

    Raises:
        OSError: It cannot be started, or not be copied.
    """

    def __init__(self, program: str, library: Path) -> None:
        self._program = program
        self._lock = threading.Lock()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        descriptor = os.open(library, os.O_RDONLY)
        names = [f"/proc/self/fd/{descriptor}", *filter(None, [os.environ.get("LD_PRELOAD")])]
        environment = {
            "LD_PRELOAD": ":".join(names),
            "ZYGOTE_FD": str(theirs.fileno()),
            "ZYGOTE_LIBRARY_FD": str(descriptor),
        }
        try:
            self._process = subprocess.Popen(
                [program],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=os.environ | environment,
                pass_fds=(theirs.fileno(), descriptor),
            )
        except BaseException:
            self._socket.close()
            raise
        finally:
            theirs.close()
            os.close(descriptor)
        _sockets.add(self._socket)
        try:
            self._socket.settimeout(_LOAD_S)
            self._number()
            self._try_copy()
            self._socket.settimeout(_REPLY_S)
        except BaseException:
            self.close()
            raise

    def _try_copy(self) -> None:
        """Have a copy that ends at once: some kernels, and filters of system calls, allow none."""
        nothing = os.open(os.devnull, os.O_RDWR)
        try:
            number = self._ask([], stdin=nothing, stdout=nothing, stderr=nothing)
        finally:
            os.close(nothing)
        if number is None or os.waitstatus_to_exitcode(os.waitpid(number, 0)[1]):
            raise OSError(f"{self._program} cannot be copied")

    def _number(self) -> int:
        reply = self._socket.recv(_NUMBER_BYTES)
        number = int.from_bytes(reply, "little", signed=True)
        if len(reply) != _NUMBER_BYTES or number < 0:
            raise OSError(f"{self._program} cannot be copied")
        return number

    def copy(self, arguments: Sequence[str], *, stdin: int, stdout: int, stderr: int) -> int | None:
        """Return the number of a copy that runs with these arguments, a child of this process; None: they don't fit.

        Args:
            arguments: Without the program's name.
            stdin: Its standard descriptors; the caller's are the caller's still.
            stdout: As above.
            stderr: As above.

        Raises:
            OSError: There is no copy, and will be no other: `forget` it.
        """
        return self._ask([self._program, *arguments], stdin=stdin, stdout=stdout, stderr=stderr)

    def _ask(self, line: Sequence[str], *, stdin: int, stdout: int, stderr: int) -> int | None:
        words = [os.fsencode(word) for word in line]
        settings = [name + b"=" + value for name, value in os.environb.items()]
        message = _COUNT.pack(len(words)) + b"".join(word + b"\0" for word in (*words, *settings))
        fits = len(message) <= _MOST_BYTES and len(words) + len(settings) <= _MOST_WORDS
        if not fits or any(b"\0" in word for word in words):
            return None
        folder = os.open(".", os.O_PATH | os.O_DIRECTORY)
        try:
            with self._lock:
                return self._told(message, [folder, stdin, stdout, stderr])
        finally:
            os.close(folder)

    def _told(self, message: bytes, descriptors: list[int]) -> int:
        """Send a message, return the number that answers it. Whatever happens, no copy goes on that nobody knows of."""
        try:
            socket.send_fds(self._socket, [message], descriptors)
            return self._number()
        except BaseException as error:
            number = self._last_number()
            if number is not None and isinstance(error, OSError):
                return number
            if number is not None:
                os.kill(number, signal.SIGKILL)
                os.waitpid(number, 0)
            raise

    def _last_number(self) -> int | None:
        """End it; return what it has told. A copy that cannot tell its number any more ends itself."""
        self._process.kill()
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
            return self._number()
        except OSError:
            return None

    def close(self) -> None:
        """End it; its copies go on."""
        with self._lock:
            _sockets.discard(self._socket)
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)  # also where a fork of this process has it too
            self._socket.close()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


_sockets: set[socket.socket] = set()
"""Those that are open."""
_zygotes: dict[tuple[int, str, int], Future[Zygote | None]] = {}
"""By process, program and priority: nice(2), which in Linux is a thread's."""
_guard = threading.Lock()


def zygote_of(program: str) -> Zygote | None:
    """Return a program that waits to be copied; never waits for it.

    The first call of a process, and the first from a thread of another priority, begins to load it and returns None,
    as every call does where it does not work.

    Args:
        program: Its path.
    """
    key = os.getpid(), program, os.getpriority(os.PRIO_PROCESS, 0)
    with _guard:
        made = _zygotes.get(key)
        if made is None:
            made = _zygotes[key] = Future()
            try:
                threading.Thread(target=_make, args=(program, made), name="zygote", daemon=True).start()
            except RuntimeError:  # there are as many threads as may be
                made.set_result(None)
    return made.result() if made.done() else None


def forget(zygote: Zygote) -> None:
    """End one that does not answer as it should; another is loaded when its program is asked for."""
    with _guard:
        for key, made in list(_zygotes.items()):
            if made.done() and made.result() is zygote:
                del _zygotes[key]
    zygote.close()


def forget_all() -> None:
    """End all of this process."""
    with _guard:
        ended = [_zygotes.pop(key) for key in list(_zygotes) if key[0] == os.getpid()]
    for made in ended:
        made.add_done_callback(_close)  # now, or once it is loaded


def _close(made: Future[Zygote | None]) -> None:
    if (zygote := made.result()) is not None:
        zygote.close()


def _make(program: str, made: Future[Zygote | None]) -> None:
    try:
        with open(program, "rb") as file:
            dynamic = file.read(len(_ELF)) == _ELF
        made.set_result(Zygote(program, _library()) if dynamic else None)
    except (OSError, Missing, CompileFailed):
        made.set_result(None)


def _library() -> Path:
    source = files("koda_ray.render").joinpath("zygote.c").read_bytes()
    path = own_folder("koda-zygote") / f"zygote-{hashlib.sha256(source).hexdigest()[:16]}.so"
    if not path.exists():
        write_whole(path, compile_library(source, packages=PACKAGES))
    return path


def _let_go() -> None:
    """In a fork of this process: have its own lock, and keep nobody else's zygote from ending."""
    global _guard
    _guard = threading.Lock()
    for held in _sockets:
        held.close()
    _sockets.clear()


os.register_at_fork(after_in_child=_let_go)
atexit.register(forget_all)
