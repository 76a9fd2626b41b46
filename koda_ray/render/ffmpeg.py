"""FFmpeg as a child that we own: command lines from ffmpeg-python, processes whose end is certain."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, NamedTuple, cast

from koda_ray.errors import EncodeFailed
from koda_ray.render.pipe import PIPE_ENDED, Pipe
from koda_ray.render.programs import find_program
from koda_ray.render.zygote import CopiedProcess, Zygote, forget, zygote_of

__all__ = [
    "QUIETLY",
    "TALKING",
    "UNDECODED",
    "Child",
    "Conversed",
    "command_line",
    "converse",
    "ensure_ended",
    "failed",
    "is_full",
    "run",
    "start",
]

Child = asyncio.subprocess.Process | CopiedProcess
"""A process that was started, or copied of one that is loaded already."""
QUIETLY = ("-hide_banner", "-loglevel", "error", "-xerror", "-y")
"""How a command line of ours begins: without -xerror a full disk or a damaged frame is a word on stderr and exit code 0
(seen with 5.1)."""
TALKING = ("-hide_banner", "-nostats", "-loglevel", "level+info", "-xerror", "-y")
"""How one begins whose words are of use: what it says of its files."""
UNDECODED = ("-codec_whitelist", "none")
"""Its arguments before an input whose frames are copied: else it decodes the first picture of each file to know more of
it than the file says, which takes 3 to 130 ms."""

# what it says beside, and of codecs that it is told to leave alone
_SMALL_TALK = re.compile(
    rb"^(?:(?:\[[^\]]*\] )?\[info\].*|.*\bCodec \([^)]*\) not on whitelist 'none'.*|    Last message repeated .*)\n?",
    re.MULTILINE,
)
_STDERR_CHARS = 1500
_KILL_WAIT_S = 5.0


def command_line(
    source: str, source_options: Mapping[str, object], target: str, target_options: Mapping[str, object]
) -> list[str]:
    """Return FFmpeg's arguments for one input and one output, without the program's name.

    Args:
        source: Input file or ``pipe:``.
        source_options: Options before ``-i``; ``format`` is ``-f``.
        target: Output file or ``pipe:``.
        target_options: Options of the output.
    """
    import ffmpeg  # pyright: ignore[reportMissingTypeStubs] - builds lists of strings, and has no types

    library = cast("Any", ffmpeg)
    stream = library.input(source, **source_options).output(target, **target_options)
    return [*QUIETLY, *cast("list[str]", stream.get_args())]


class Conversed(NamedTuple):
    """What a program wrote to standard output, and its words: what it wrote to standard error."""

    output: bytes
    words: str


async def run(
    program: str, arguments: Sequence[str], *, timeout_s: float, feed: AsyncGenerator[bytes] | None = None
) -> bytes:
    """Run ffmpeg or ffprobe to its end.

    Args:
        program: ``ffmpeg`` or ``ffprobe``.
        arguments: Without the program's name.
        timeout_s: Then it is killed.
        feed: What it reads on standard input, if anything; asked for more as fast as it is read.

    Returns:
        What it wrote to standard output.

    Raises:
        Missing: It is not installed.
        EncodeFailed: It exited with an error or took too long; code DISK_FULL where that is why.
    """
    return (await converse(program, arguments, timeout_s=timeout_s, feed=feed)).output


async def converse(
    program: str, arguments: Sequence[str], *, timeout_s: float, feed: AsyncGenerator[bytes] | None = None
) -> Conversed:
    """Run ffmpeg or ffprobe to its end, as `run`, for what it says as well."""
    fed = None if feed is None else (Pipe(), feed)
    process = await start(program, arguments, pipe=fed[0] if fed else None)
    try:
        async with asyncio.timeout(timeout_s):
            output, errors = await (_fed(process, *fed) if fed else process.communicate())
    except TimeoutError:
        raise EncodeFailed(f"{program} did not end in {timeout_s:g} s", retryable=True) from None
    finally:
        await ensure_ended(process)
    if process.returncode or is_full(errors):
        raise failed(program, process.returncode, errors)
    return Conversed(output, errors.decode(errors="replace"))


async def start(program: str, arguments: Sequence[str], *, pipe: Pipe | None = None, heard: bool = True) -> Child:
    """Start ffmpeg or ffprobe; its words on standard error are for the caller to read.

    Args:
        program: ``ffmpeg`` or ``ffprobe``.
        arguments: Without the program's name.
        pipe: What it reads on standard input, if anything; closed where it does not start.
        heard: Whether the caller reads what it writes to standard output.

    Raises:
        Missing: It is not installed.
    """
    with contextlib.ExitStack() as undo:
        if pipe is not None:
            undo.callback(pipe.close)
        path = await asyncio.to_thread(find_program, program)
        process: Child | None = None
        if program == "ffmpeg" and (zygote := zygote_of(path)) is not None:
            process = await _copied(zygote, arguments, pipe=pipe, heard=heard)
        if process is None:
            process = await asyncio.create_subprocess_exec(
                path,
                *arguments,
                stdin=asyncio.subprocess.DEVNULL if pipe is None else pipe.reader,
                stdout=asyncio.subprocess.PIPE if heard else asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
            )
        undo.pop_all()
    if pipe is not None:
        pipe.started()
    return process


async def _copied(zygote: Zygote, arguments: Sequence[str], *, pipe: Pipe | None, heard: bool) -> CopiedProcess | None:
    """Start a copy of one that is loaded; None where there is no copy."""
    with contextlib.ExitStack() as ends:
        nothing = os.open(os.devnull, os.O_RDWR)
        ends.callback(os.close, nothing)
        stderr, errors = await _heard(ends)
        stdout, output = await _heard(ends) if heard else (None, nothing)
        stdin = nothing if pipe is None else pipe.reader
        try:
            pid = zygote.copy(arguments, stdin=stdin, stdout=output, stderr=errors)
        except OSError:
            await asyncio.to_thread(forget, zygote)
            return None
        return None if pid is None else CopiedProcess(pid, stdout, stderr)


async def _heard(ends: contextlib.ExitStack) -> tuple[asyncio.StreamReader, int]:
    """Make a pipe; return what reads it, and its other end, which is closed with these."""
    loop, reader = asyncio.get_running_loop(), asyncio.StreamReader()
    descriptor, other = os.pipe()
    ends.callback(os.close, other)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb"))
    return reader, other


async def _fed(process: Child, pipe: Pipe, feed: AsyncGenerator[bytes]) -> tuple[bytes, bytes]:
    """Feed a child while what it says is read."""
    reader, words = process.stdout, process.stderr
    assert reader is not None
    assert words is not None

    async def write() -> None:
        try:
            async with contextlib.aclosing(feed):
                async for data in feed:
                    try:
                        await pipe.write(data)
                    except PIPE_ENDED:
                        return  # it has ended, and says why
        finally:
            pipe.close()

    writer = asyncio.create_task(write())
    try:
        output, errors = await asyncio.gather(reader.read(), words.read())
        await writer
        await process.wait()
    finally:
        writer.cancel()
        await asyncio.wait({writer})
        pipe.close()  # a task that is cancelled before its first step closes nothing
    return output, errors


async def ensure_ended(process: Child) -> None:
    """Make sure that a child is gone, also when the caller is being cancelled."""
    if process.returncode is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    wait = asyncio.ensure_future(process.wait())
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_KILL_WAIT_S):
            await asyncio.shield(wait)


def is_full(errors: bytes) -> bool:
    """Whether a child's words say that the disk is full; it may still have exited with 0."""
    return b"No space left on device" in errors or b"Disk quota exceeded" in errors


def failed(program: str, code: int | None, errors: bytes) -> EncodeFailed:
    """Return the error for a child that ended badly, with its last words."""
    text = _SMALL_TALK.sub(b"", errors).decode(errors="replace").strip()[-_STDERR_CHARS:]
    if is_full(errors):
        return EncodeFailed(f"{program}: the disk is full; free some space and try again", code="DISK_FULL")
    # a signal (memory, a kill) may not happen again; a refusal will
    return EncodeFailed(f"{program} ended with {code}: {text or 'it said nothing'}", retryable=bool(code and code < 0))
