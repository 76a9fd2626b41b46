"""FFmpeg on a file that is somebody else's: as isolated as a browser, with that one file to read and nothing to write.

Decoders are a million lines of C that read what strangers wrote. The file comes in as the standard input, which can be
sought in, and what is made of it goes out as the standard output: inside there is no network, no folder of ours, no
environment, and no path that a playlist could name.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

from koda_ray.errors import EncodeFailed
from koda_ray.render.ffmpeg import ensure_ended, failed, is_full
from koda_ray.render.isolation import call_filter, check_isolation, program_command
from koda_ray.render.programs import find_program

__all__ = ["SOURCE", "run_on_foreign"]

SOURCE = ("-protocol_whitelist", "file", "-i", "/dev/stdin")
"""How FFmpeg is told to read the file."""

_MEMORY_BYTES = 2 << 30
_ANSWER_BYTES = 1 << 20
_WORDS_BYTES = 1 << 14


async def run_on_foreign(
    program: str,
    arguments: Sequence[str],
    *,
    source: Path,
    target: Path | None = None,
    most_bytes: int = _ANSWER_BYTES,
    timeout_s: float,
) -> bytes:
    """Run ffmpeg or ffprobe on a foreign file to its end, in isolation.

    Args:
        program: ``ffmpeg`` or ``ffprobe``.
        arguments: Without the program's name; `SOURCE` names the file.
        source: The file.
        target: Where its standard output goes; None to return it.
        most_bytes: How much it may write there.
        timeout_s: Then it is killed.

    Returns:
        What it wrote to standard output, where there is no target.

    Raises:
        Missing: It is not installed, or cannot be isolated here.
        EncodeFailed: It exited with an error or took too long; code DISK_FULL where that is why.
    """
    binary = await asyncio.to_thread(Path(find_program(program)).resolve)
    await asyncio.to_thread(check_isolation, binary)
    made = target or source.with_name(f"{source.name}.{program}")
    with call_filter(nesting=False) as filter_fd, source.open("rb") as read, made.open("wb") as written:
        os.fchmod(read.fileno(), 0o644)  # whoever it runs as opens it anew, at its beginning
        command = await asyncio.to_thread(program_command, binary, filter_fd=filter_fd)
        limits = (find_program("prlimit"), f"--as={_MEMORY_BYTES}", f"--fsize={most_bytes}", "--core=0", "--")
        process = await asyncio.create_subprocess_exec(
            *limits, *command, *arguments,
            stdin=read, stdout=written, stderr=asyncio.subprocess.PIPE, env={},
            pass_fds=() if filter_fd is None else (filter_fd,),
        )  # fmt: skip
    assert process.stderr is not None
    try:
        async with asyncio.timeout(timeout_s):
            errors = await _last_words(process.stderr)
            await process.wait()
    except TimeoutError:
        raise EncodeFailed(f"{program} did not end in {timeout_s:g} s", retryable=True) from None
    finally:
        await ensure_ended(process)
    if process.returncode or is_full(errors):
        raise failed(program, process.returncode, errors)
    if target is not None:
        return b""
    answer = await asyncio.to_thread(made.read_bytes)
    await asyncio.to_thread(made.unlink)
    return answer


async def _last_words(errors: asyncio.StreamReader) -> bytes:
    """Read to the end and keep the last of it: each damaged frame of a file is a line."""
    kept = b""
    while said := await errors.read(_WORDS_BYTES):
        kept = (kept + said)[-_WORDS_BYTES:]
    return kept
