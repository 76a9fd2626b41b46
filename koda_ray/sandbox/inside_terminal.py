"""The helper's terminal: a command gets one inside the sandbox, and its bytes go over the helper's input and output.

For a service whose own terminals cannot be given another size or another user. What is typed, and new sizes, are
messages (``frames``); what the terminal shows comes out as plain bytes. Whoever is at the other end says something
every few seconds: where nothing is heard any more, the command is ended, since such a service may not tell that its
caller was killed.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Sequence

from koda_ray.sandbox.keeper import end_tree
from koda_ray.sandbox.link_terminal import serve_terminal
from koda_ray.sandbox.terminal import CONTROLLING, LocalTerminal, open_terminal

__all__ = ["BEAT_S", "SILENCE_S", "serve"]

BEAT_S = 15.0
"""How often the other end says something."""

SILENCE_S = 60.0
"""For how long it may say nothing."""


def serve(argv: Sequence[str], *, rows: int, columns: int) -> None:
    """Run a command with a terminal until it ends, or the other end does.

    Args:
        argv: The command, with its walls.
        rows: The terminal's size.
        columns: The same.
    """
    asyncio.run(_serve(argv, rows=rows, columns=columns))


async def _serve(argv: Sequence[str], *, rows: int, columns: int) -> None:
    reader, writer = await _standard_streams()
    ours, theirs = open_terminal(rows=rows, columns=columns)
    try:
        process = _started([*CONTROLLING, *argv], theirs)
    finally:
        os.close(theirs)

    async def end() -> None:
        await asyncio.to_thread(_end, process)

    terminal = LocalTerminal(ours, end)
    try:
        await serve_terminal(terminal, reader, writer, silence_s=SILENCE_S)
    finally:
        await terminal.close()


def _started(argv: Sequence[str], terminal: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(list(argv), stdin=terminal, stdout=terminal, stderr=terminal, cwd="/")


def _end(process: subprocess.Popen[bytes]) -> None:
    end_tree(process.pid)  # setsid, the walls' shells and unshare are one process after the other
    process.kill()
    process.wait()


async def _standard_streams() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, sys.stdout)
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)
